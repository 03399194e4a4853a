// Command sarama is the interop client built on sarama.
//
//	sarama create  BOOTSTRAP TOPIC PARTITIONS
//	sarama produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
//	sarama consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"kcli.interop/go/records"
)

const deadline = 90 * time.Second

func main() {
	bootstrap, name, rest := os.Args[2], os.Args[3], os.Args[4:]
	switch os.Args[1] {
	case "create":
		create(bootstrap, name, int32(records.Number(rest[0])))
	case "produce":
		for _, argument := range rest {
			produce(bootstrap, name, records.ParseLane(argument))
		}
	case "consume":
		consume(bootstrap, name, records.ParseWanted(rest))
	}
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func create(bootstrap, topic string, partitions int32) {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, settings())
	records.Check(err)
	defer admin.Close()
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
	records.Check(admin.CreateTopic(topic, detail, false))
}

func produce(bootstrap, topic string, lane records.Lane) {
	config := settings()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none":   sarama.CompressionNone,
		"gzip":   sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy,
		"lz4":    sarama.CompressionLZ4,
		"zstd":   sarama.CompressionZSTD,
	}[lane.Codec]
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0":   sarama.NoResponse,
		"1":   sarama.WaitForLocal,
		"all": sarama.WaitForAll,
	}[lane.Acks]
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = lane.Idempotent
	producer, err := sarama.NewAsyncProducer([]string{bootstrap}, config)
	records.Check(err)
	go func() {
		for _, record := range lane.Records {
			producer.Input() <- message(topic, lane.Partition, record)
		}
	}()
	expired := time.After(deadline)
	for range lane.Records {
		select {
		case <-producer.Successes():
		case failure := <-producer.Errors():
			records.Check(failure)
		case <-expired:
			records.Check(fmt.Errorf("produce %s-%d: not done after %v", topic, lane.Partition, deadline))
		}
	}
	records.Check(producer.Close())
}

func message(topic string, partition int32, record records.Record) *sarama.ProducerMessage {
	out := &sarama.ProducerMessage{Topic: topic, Partition: partition}
	if record.Key != nil {
		out.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		out.Value = sarama.ByteEncoder(record.Value)
	}
	if record.Timestamp >= 0 {
		out.Timestamp = time.UnixMilli(record.Timestamp)
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	return out
}

func consume(bootstrap, path string, wanted []records.Wanted) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, settings())
	records.Check(err)
	file, err := os.Create(path)
	records.Check(err)
	output := bufio.NewWriter(file)
	var writing sync.Mutex
	var reading sync.WaitGroup
	for _, one := range wanted {
		part, err := consumer.ConsumePartition(one.Topic, one.Partition, 0)
		records.Check(err)
		reading.Add(1)
		go func() {
			defer reading.Done()
			expired := time.After(deadline)
			for left := one.Count; left > 0; left-- {
				select {
				case in := <-part.Messages():
					writing.Lock()
					records.Write(output, received(one.Slot, in))
					writing.Unlock()
				case <-expired:
					records.Check(fmt.Errorf("%s-%d: %d records still missing", one.Topic, one.Partition, left))
				}
			}
		}()
	}
	reading.Wait()
	records.Check(output.Flush())
	records.Check(file.Close())
}

func received(slot int32, in *sarama.ConsumerMessage) records.Record {
	record := records.Record{
		Slot:      slot,
		Offset:    in.Offset,
		Timestamp: in.Timestamp.UnixMilli(),
		Key:       in.Key,
		Value:     in.Value,
	}
	for _, header := range in.Headers {
		record.Headers = append(record.Headers, records.Header{Name: string(header.Key), Value: header.Value})
	}
	return record
}
