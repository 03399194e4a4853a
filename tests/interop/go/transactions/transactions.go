// Package transactions is what the transactional programs share; tests/support/transaction_program.py describes
// their commands.
package transactions

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Deadline is how long one command may take.
const Deadline = 60 * time.Second

// Options are the words of a command.
type Options map[string]string

// Number returns an option that is a number.
func (options Options) Number(name string) int64 {
	value, err := strconv.ParseInt(options[name], 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

// Record is one record to send.
type Record struct {
	Partition  int32
	Key, Value string
}

// Records returns what a send command asks for.
func (options Options) Records() []Record {
	var all []Record
	for number := range options.Number("count") {
		for partition := range int32(options.Number("partitions")) {
			value := fmt.Sprintf("%s-%d-%d", options["tag"], partition, number)
			all = append(all, Record{partition, fmt.Sprintf("key-%d", number), value})
		}
	}
	return all
}

// Wanted is one partition to read, and the offset of its last record.
type Wanted struct {
	Slot      int
	Topic     string
	Partition int32
	Last      int64
}

// Wanted returns what a read command asks for.
func (options Options) Wanted() []Wanted {
	var all []Wanted
	for slot, word := range strings.Split(options["wanted"], ",") {
		part := Options{}
		part["topic"], word, _ = strings.Cut(word, ":")
		part["partition"], part["last"], _ = strings.Cut(word, ":")
		all = append(all, Wanted{slot, part["topic"], int32(part.Number("partition")), part.Number("last")})
	}
	return all
}

var output = bufio.NewWriter(os.Stdout)

// Print writes a record that was read.
func Print(slot int, offset int64, key, value []byte) {
	fmt.Fprintf(output, "record %d %d %s %s\n", slot, offset, key, value)
}

// Serve performs commands until standard input ends.
func Serve(commands map[string]func(Options) error) {
	answer("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		options := Options{}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			options[name] = value
		}
		if err := commands[words[0]](options); err != nil {
			answer("refused " + strings.Join(strings.Fields(err.Error()), " "))
		} else {
			answer("ok")
		}
	}
}

func answer(line string) {
	fmt.Fprintln(output, line)
	if err := output.Flush(); err != nil {
		panic(err)
	}
}
