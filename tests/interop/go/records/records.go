// Package records reads and writes the record files that the interop tests exchange with their clients.
package records

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Header is one record header; a nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// Record is one record of a file; Timestamp is in milliseconds, nil keys and values are null.
type Record struct {
	Slot      int32
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Lane says how to produce one file: PARTITION:CODEC:ACKS:IDEMPOTENT:FILE.
type Lane struct {
	Partition  int32
	Codec      string
	Acks       string
	Idempotent bool
	Records    []Record
}

// Wanted is one TOPIC:PARTITION:COUNT to consume from offset 0.
type Wanted struct {
	Slot      int32
	Topic     string
	Partition int32
	Count     int64
}

// Check ends the program when there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Number parses a decimal argument.
func Number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	Check(err)
	return value
}

// ParseLane parses an argument and reads its file.
func ParseLane(argument string) Lane {
	part := strings.SplitN(argument, ":", 5)
	file, err := os.Open(part[4])
	Check(err)
	defer file.Close()
	return Lane{int32(Number(part[0])), part[1], part[2], part[3] == "1", Read(bufio.NewReader(file))}
}

// ParseWanted parses the arguments of consume.
func ParseWanted(arguments []string) []Wanted {
	var all []Wanted
	for slot, argument := range arguments {
		part := strings.Split(argument, ":")
		all = append(all, Wanted{int32(slot), part[0], int32(Number(part[1])), Number(part[2])})
	}
	return all
}

// Read returns every record of a file.
func Read(input io.Reader) []Record {
	var all []Record
	for {
		var prefix [20]byte
		if _, err := io.ReadFull(input, prefix[:]); err == io.EOF {
			return all
		} else {
			Check(err)
		}
		record := Record{
			Slot:      int32(binary.BigEndian.Uint32(prefix[:])),
			Offset:    int64(binary.BigEndian.Uint64(prefix[4:])),
			Timestamp: int64(binary.BigEndian.Uint64(prefix[12:])),
			Key:       readBlob(input),
			Value:     readBlob(input),
		}
		for left := readNumber(input); left > 0; left-- {
			name := string(readBlob(input))
			record.Headers = append(record.Headers, Header{name, readBlob(input)})
		}
		all = append(all, record)
	}
}

// Write appends one record to a file.
func Write(output io.Writer, record Record) {
	var prefix [20]byte
	binary.BigEndian.PutUint32(prefix[:], uint32(record.Slot))
	binary.BigEndian.PutUint64(prefix[4:], uint64(record.Offset))
	binary.BigEndian.PutUint64(prefix[12:], uint64(record.Timestamp))
	_, err := output.Write(prefix[:])
	Check(err)
	writeBlob(output, record.Key)
	writeBlob(output, record.Value)
	Check(binary.Write(output, binary.BigEndian, int32(len(record.Headers))))
	for _, header := range record.Headers {
		writeBlob(output, []byte(header.Name))
		writeBlob(output, header.Value)
	}
}

func readNumber(input io.Reader) int32 {
	var value int32
	Check(binary.Read(input, binary.BigEndian, &value))
	return value
}

func readBlob(input io.Reader) []byte {
	size := readNumber(input)
	if size < 0 {
		return nil
	}
	data := make([]byte, size)
	_, err := io.ReadFull(input, data)
	Check(err)
	return data
}

func writeBlob(output io.Writer, data []byte) {
	size := int32(len(data))
	if data == nil {
		size = -1
	}
	Check(binary.Write(output, binary.BigEndian, size))
	_, err := output.Write(data)
	Check(err)
}
