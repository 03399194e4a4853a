// Command sarama-transactions is the transactional program built on sarama.
package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"kcli.interop/go/transactions"
)

var producers = map[string]sarama.AsyncProducer{}

func main() {
	transactions.Serve(map[string]func(transactions.Options) error{
		"open": open, "begin": begin, "send": send, "offsets": offsets,
		"commit": commit, "abort": abort, "close": forget, "read": read,
	})
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func open(options transactions.Options) error {
	config := settings()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Transaction.ID = options["id"]
	config.Producer.Transaction.Timeout = time.Duration(options.Number("timeout")) * time.Millisecond
	producer, err := sarama.NewAsyncProducer([]string{options["bootstrap"]}, config)
	if err == nil {
		producers[options["producer"]] = producer
	}
	return err
}

func begin(options transactions.Options) error { return producers[options["producer"]].BeginTxn() }

func send(options transactions.Options) error {
	producer := producers[options["producer"]]
	records := options.Records()
	go func() {
		for _, record := range records {
			producer.Input() <- &sarama.ProducerMessage{
				Topic:     options["topic"],
				Partition: record.Partition,
				Key:       sarama.StringEncoder(record.Key),
				Value:     sarama.StringEncoder(record.Value),
			}
		}
	}()
	expired := time.After(transactions.Deadline)
	var first error
	for range records {
		select {
		case <-producer.Successes():
		case failure := <-producer.Errors():
			if first == nil {
				first = failure.Err
			}
		case <-expired:
			return fmt.Errorf("not done after %v", transactions.Deadline)
		}
	}
	return first
}

// offsets has sarama keep the position, which it sends when it commits.
func offsets(options transactions.Options) error {
	position := &sarama.PartitionOffsetMetadata{Offset: options.Number("position")}
	wanted := map[string][]*sarama.PartitionOffsetMetadata{options["topic"]: {position}}
	return producers[options["producer"]].AddOffsetsToTxn(wanted, options["group"])
}

func commit(options transactions.Options) error { return producers[options["producer"]].CommitTxn() }

func abort(options transactions.Options) error { return producers[options["producer"]].AbortTxn() }

func forget(options transactions.Options) error {
	producers[options["producer"]].AsyncClose()
	delete(producers, options["producer"])
	return nil
}

func read(options transactions.Options) error {
	config := settings()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	if options["isolation"] == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{options["bootstrap"]}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	expired := time.After(transactions.Deadline)
	for _, one := range options.Wanted() {
		part, err := consumer.ConsumePartition(one.Topic, one.Partition, 0)
		if err != nil {
			return err
		}
		for last := int64(-1); last < one.Last; {
			select {
			case record := <-part.Messages():
				last = record.Offset
				transactions.Print(one.Slot, record.Offset, record.Key, record.Value)
			case <-expired:
				return fmt.Errorf("%s-%d: read up to %d only", one.Topic, one.Partition, last)
			}
		}
		part.AsyncClose()
	}
	return nil
}
