// Package members is what the group member programs share; tests/support/member_program.py describes their
// commands and events.
package members

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How often members commit, and how long they poll.
const (
	CommitInterval = 200 * time.Millisecond
	PollTimeout    = 100 * time.Millisecond
)

// Options are those of a join command.
type Options map[string]string

// Milliseconds returns an option that is a time.
func (options Options) Milliseconds(name string) time.Duration {
	value, err := strconv.Atoi(options[name])
	if err != nil {
		panic(err)
	}
	return time.Duration(value) * time.Millisecond
}

var printing sync.Mutex

// Print writes one event.
func Print(event string, fields map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	all := map[string]any{"event": event, "at": now()}
	for name, value := range fields {
		all[name] = value
	}
	line, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// now returns the seconds of the system's monotonic clock, which Go's own times do not tell.
func now() float64 {
	var moment unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &moment); err != nil {
		panic(err)
	}
	return float64(moment.Nano()) / 1e9
}

// Changed prints an event about the member's partitions.
func Changed(event string, partitions []int32) {
	sorted := append([]int32{}, partitions...)
	slices.Sort(sorted)
	Print(event, map[string]any{"partitions": sorted})
}

// Records prints what was consumed of a partition.
func Records(partition int32, offsets []int64, values []string) {
	Print("records", map[string]any{"partition": partition, "offsets": offsets, "values": values})
}

// Committed prints how a commit ended.
func Committed(offsets map[int32]int64, err error) {
	if err != nil {
		Print("refused", map[string]any{"reason": err.Error()})
	} else if len(offsets) > 0 {
		Print("committed", map[string]any{"offsets": offsets})
	}
}

// Serve runs one membership after another until standard input ends. A membership ends when its channel closes.
func Serve(member func(options Options, leave <-chan struct{}) error) {
	joins := make(chan Options)
	leave := make(chan struct{}, 1)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			if words[0] != "join" {
				leave <- struct{}{}
				continue
			}
			options := Options{}
			for _, word := range words[1:] {
				name, value, _ := strings.Cut(word, "=")
				options[name] = value
			}
			select {
			case <-leave: // it came when the membership had ended by itself
			default:
			}
			joins <- options
		}
		end <- syscall.SIGTERM
	}()
	Print("ready", nil)
	for {
		select {
		case <-end:
			return
		case options := <-joins:
			over := make(chan struct{})
			done := make(chan error)
			go func() { done <- member(options, over) }()
			ended := false
			select {
			case <-leave:
				close(over)
			case <-end:
				ended = true
				close(over)
			case err := <-done:
				Print("failed", map[string]any{"reason": fmt.Sprint(err)})
				continue
			}
			if err := <-done; err != nil {
				Print("failed", map[string]any{"reason": err.Error()})
			} else {
				Print("left", nil)
			}
			if ended {
				return
			}
		}
	}
}
