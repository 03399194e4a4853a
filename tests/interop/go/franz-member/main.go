// Command franz-member is the group member built on franz-go.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kcli.interop/go/members"
)

func main() { members.Serve(member) }

type membership struct {
	topic     string
	positions map[int32]kgo.EpochOffset
	due       time.Time
	unsaved   bool
}

func member(options members.Options, leave <-chan struct{}) error {
	m := &membership{topic: options["topic"], positions: map[int32]kgo.EpochOffset{}}
	settings := []kgo.Opt{
		kgo.SeedBrokers(options["bootstrap"]),
		kgo.ConsumerGroup(options["group"]),
		kgo.ConsumeTopics(m.topic),
		kgo.ClientID(options["client"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(members.PollTimeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
	}
	if id := options["instance"]; id != "" {
		settings = append(settings, kgo.InstanceID(id))
	}
	switch options["assignor"] {
	case "consumer":
		settings = append(settings, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	case "range":
		settings = append(settings, kgo.Balancers(kgo.RangeBalancer()))
	default:
		settings = append(settings, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if options["assignor"] != "consumer" {
		settings = append(settings,
			kgo.SessionTimeout(options.Milliseconds("session")),
			kgo.HeartbeatInterval(options.Milliseconds("heartbeat")))
	}
	client, err := kgo.NewClient(settings...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		select {
		case <-leave:
			return nil
		default:
		}
		if err := m.poll(client); err != nil {
			return err
		}
	}
}

// poll prints what came, and commits when it is time. Nothing is revoked meanwhile.
func (m *membership) poll(client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), members.PollTimeout)
	fetches := client.PollRecords(ctx, 500)
	cancel()
	defer client.AllowRebalance()
	for _, failed := range fetches.Errors() {
		if errors.Is(failed.Err, kerr.FencedInstanceID) || errors.Is(failed.Err, kerr.UnreleasedInstanceID) {
			return failed.Err
		}
	}
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		var offsets []int64
		var values []string
		for _, record := range part.Records {
			offsets = append(offsets, record.Offset)
			values = append(values, string(record.Value))
			m.positions[part.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
		}
		if len(offsets) > 0 {
			members.Records(part.Partition, offsets, values)
			m.unsaved = true
		}
	})
	if m.unsaved && time.Now().After(m.due) {
		m.unsaved = false
		m.commit(context.Background(), client, m.positions)
		m.due = time.Now().Add(members.CommitInterval)
	}
	return nil
}

func (m *membership) commit(ctx context.Context, client *kgo.Client, positions map[int32]kgo.EpochOffset) {
	if len(positions) == 0 {
		return
	}
	offsets := map[int32]int64{}
	for partition, position := range positions {
		offsets[partition] = position.Offset
	}
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: positions},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			members.Committed(offsets, errors.Join(err, failure(response)))
		})
}

func (m *membership) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	members.Changed("assigned", added[m.topic])
}

func (m *membership) revoked(ctx context.Context, client *kgo.Client, given map[string][]int32) {
	positions := map[int32]kgo.EpochOffset{}
	for _, partition := range given[m.topic] {
		if position, ok := m.positions[partition]; ok {
			positions[partition] = position
			delete(m.positions, partition)
		}
	}
	m.commit(ctx, client, positions)
	if len(given[m.topic]) > 0 {
		members.Changed("revoked", given[m.topic])
	}
}

func (m *membership) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	for _, partition := range gone[m.topic] {
		delete(m.positions, partition)
	}
	members.Changed("lost", gone[m.topic])
}
