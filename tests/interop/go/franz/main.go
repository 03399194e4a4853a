// Command franz is the interop client built on franz-go.
//
//	franz create  BOOTSTRAP TOPIC PARTITIONS
//	franz produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
//	franz consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kcli.interop/go/records"
)

const deadline = 90 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	bootstrap, name, rest := os.Args[2], os.Args[3], os.Args[4:]
	switch os.Args[1] {
	case "create":
		create(ctx, bootstrap, name, int32(records.Number(rest[0])))
	case "produce":
		for _, argument := range rest {
			produce(ctx, bootstrap, name, records.ParseLane(argument))
		}
	case "consume":
		consume(ctx, bootstrap, name, records.ParseWanted(rest))
	}
}

func create(ctx context.Context, bootstrap, topic string, partitions int32) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	records.Check(err)
	defer client.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, wanted)
	response, err := request.RequestWith(ctx, client)
	records.Check(err)
	if code := response.Topics[0].ErrorCode; code != 0 {
		records.Check(fmt.Errorf("create %s: error %d", topic, code))
	}
}

func produce(ctx context.Context, bootstrap, topic string, lane records.Lane) {
	codec := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}[lane.Codec]
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[lane.Acks]
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ProducerBatchCompression(codec),
		kgo.RequiredAcks(acks),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if !lane.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	records.Check(err)
	defer client.Close()
	var batch []*kgo.Record
	for _, record := range lane.Records {
		out := &kgo.Record{Topic: topic, Partition: lane.Partition, Key: record.Key, Value: record.Value}
		if record.Timestamp >= 0 {
			out.Timestamp = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		batch = append(batch, out)
	}
	records.Check(client.ProduceSync(ctx, batch...).FirstErr())
}

func consume(ctx context.Context, bootstrap, path string, wanted []records.Wanted) {
	offsets := map[string]map[int32]kgo.Offset{}
	slots := map[string]map[int32]int32{}
	missing := map[int32]int64{}
	for _, one := range wanted {
		if offsets[one.Topic] == nil {
			offsets[one.Topic] = map[int32]kgo.Offset{}
			slots[one.Topic] = map[int32]int32{}
		}
		offsets[one.Topic][one.Partition] = kgo.NewOffset().At(0)
		slots[one.Topic][one.Partition] = one.Slot
		missing[one.Slot] = one.Count
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(offsets))
	records.Check(err)
	defer client.Close()
	file, err := os.Create(path)
	records.Check(err)
	output := bufio.NewWriter(file)
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if failed := fetches.Errors(); len(failed) > 0 {
			records.Check(fmt.Errorf("%s-%d: %w", failed[0].Topic, failed[0].Partition, failed[0].Err))
		}
		fetches.EachRecord(func(in *kgo.Record) {
			slot := slots[in.Topic][in.Partition]
			record := records.Record{
				Slot:      slot,
				Offset:    in.Offset,
				Timestamp: in.Timestamp.UnixMilli(),
				Key:       in.Key,
				Value:     in.Value,
			}
			for _, header := range in.Headers {
				record.Headers = append(record.Headers, records.Header{Name: header.Key, Value: header.Value})
			}
			records.Write(output, record)
			if missing[slot]--; missing[slot] == 0 {
				delete(missing, slot)
			}
		})
	}
	records.Check(output.Flush())
	records.Check(file.Close())
}
