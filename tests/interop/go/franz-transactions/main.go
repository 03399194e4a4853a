// Command franz-transactions is the transactional program built on franz-go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kcli.interop/go/transactions"
)

// A producer is a client, or the session of a group if its offsets are sent.
type producer struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
}

var producers = map[string]producer{}

func main() {
	transactions.Serve(map[string]func(transactions.Options) error{
		"open": open, "begin": begin, "send": send, "offsets": offsets,
		"commit": end(kgo.TryCommit), "abort": end(kgo.TryAbort), "close": forget, "read": read,
	})
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), transactions.Deadline)
}

func open(options transactions.Options) error {
	settings := []kgo.Opt{
		kgo.SeedBrokers(options["bootstrap"]),
		kgo.TransactionalID(options["id"]),
		kgo.TransactionTimeout(time.Duration(options.Number("timeout")) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	var made producer
	var err error
	if group := options["group"]; group != "" {
		settings = append(settings,
			kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(options["source"]),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.FetchMaxWait(100*time.Millisecond),
			kgo.RequireStableFetchOffsets())
		if made.session, err = kgo.NewGroupTransactSession(settings...); err == nil {
			made.client = made.session.Client()
		}
	} else {
		made.client, err = kgo.NewClient(settings...)
	}
	if err != nil {
		return err
	}
	producers[options["producer"]] = made
	ctx, cancel := limited()
	defer cancel()
	_, _, err = made.client.ProducerID(ctx)
	return err
}

func begin(options transactions.Options) error {
	return producers[options["producer"]].client.BeginTransaction()
}

func send(options transactions.Options) error {
	var batch []*kgo.Record
	for _, record := range options.Records() {
		batch = append(batch, &kgo.Record{
			Topic:     options["topic"],
			Partition: record.Partition,
			Key:       []byte(record.Key),
			Value:     []byte(record.Value),
		})
	}
	ctx, cancel := limited()
	defer cancel()
	return producers[options["producer"]].client.ProduceSync(ctx, batch...).FirstErr()
}

// offsets consumes up to the position, which the session sends when it commits.
func offsets(options transactions.Options) error {
	session := producers[options["producer"]].session
	ctx, cancel := limited()
	defer cancel()
	position := options.Number("position")
	for reached := int64(0); reached < position; {
		fetches := session.PollRecords(ctx, 1)
		if failed := fetches.Errors(); len(failed) > 0 {
			return failed[0].Err
		}
		fetches.EachRecord(func(record *kgo.Record) { reached = record.Offset + 1 })
	}
	return nil
}

func end(how kgo.TransactionEndTry) func(transactions.Options) error {
	return func(options transactions.Options) error {
		own := producers[options["producer"]]
		ctx, cancel := limited()
		defer cancel()
		if own.session == nil {
			return own.client.EndTransaction(ctx, how)
		}
		committed, err := own.session.End(ctx, how)
		if err == nil && committed != bool(how) {
			err = fmt.Errorf("committed: %v", committed)
		}
		return err
	}
}

func forget(options transactions.Options) error {
	producers[options["producer"]].client.CloseAllowingRebalance()
	delete(producers, options["producer"])
	return nil
}

func read(options transactions.Options) error {
	type place struct {
		topic     string
		partition int32
	}
	wanted := map[place]transactions.Wanted{}
	missing := map[place]bool{}
	starts := map[string]map[int32]kgo.Offset{}
	for _, one := range options.Wanted() {
		if starts[one.Topic] == nil {
			starts[one.Topic] = map[int32]kgo.Offset{}
		}
		starts[one.Topic][one.Partition] = kgo.NewOffset().At(0)
		wanted[place{one.Topic, one.Partition}] = one
		missing[place{one.Topic, one.Partition}] = true
	}
	isolation := kgo.ReadUncommitted()
	if options["isolation"] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(options["bootstrap"]),
		kgo.ConsumePartitions(starts),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if failed := fetches.Errors(); len(failed) > 0 {
			return fmt.Errorf("%s-%d: %w", failed[0].Topic, failed[0].Partition, failed[0].Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			from := place{record.Topic, record.Partition}
			transactions.Print(wanted[from].Slot, record.Offset, record.Key, record.Value)
			if record.Offset >= wanted[from].Last {
				delete(missing, from)
			}
		})
	}
	return nil
}
