// Command sarama-member is the group member built on sarama.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"kcli.interop/go/members"
)

func main() { members.Serve(member) }

func settings(options members.Options) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = options["client"]
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = members.PollTimeout
	config.Consumer.Retry.Backoff = 50 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Metadata.Retry.Max = 600
	config.Consumer.Group.InstanceId = options["instance"]
	config.Consumer.Group.Session.Timeout = options.Milliseconds("session")
	config.Consumer.Group.Heartbeat.Interval = options.Milliseconds("heartbeat")
	config.Consumer.Group.Rebalance.Retry.Backoff = 50 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Max = 100
	strategy := sarama.NewBalanceStrategyRange()
	if options["assignor"] == "cooperative-sticky" {
		strategy = sarama.NewBalanceStrategyCooperativeSticky()
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	return config
}

func member(options members.Options, leave <-chan struct{}) error {
	group, err := sarama.NewConsumerGroup([]string{options["bootstrap"]}, options["group"], settings(options))
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			members.Print("refused", map[string]any{"reason": err.Error()})
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-leave
		cancel()
	}()
	for ctx.Err() == nil {
		err = group.Consume(ctx, []string{options["topic"]}, &handler{})
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			break
		}
		if err != nil && ctx.Err() == nil {
			members.Print("refused", map[string]any{"reason": err.Error()})
		}
		err = nil
	}
	return errors.Join(err, group.Close())
}

// handler consumes each claim in a goroutine of its own, as sarama does.
type handler struct {
	committing sync.Mutex
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	members.Changed("assigned", []int32{claim.Partition()})
	c := &consumption{handler: h, session: session, claim: claim}
	c.run()
	members.Changed("revoked", []int32{claim.Partition()})
	return nil
}

type consumption struct {
	handler *handler
	session sarama.ConsumerGroupSession
	claim   sarama.ConsumerGroupClaim
}

func (c *consumption) run() {
	tick := time.NewTicker(members.CommitInterval)
	defer tick.Stop()
	defer c.commit()
	for {
		select {
		case <-c.session.Context().Done():
			return
		case <-tick.C:
			c.commit()
		case message, open := <-c.claim.Messages():
			if !open {
				return
			}
			c.print(message)
		}
	}
}

// print takes what has arrived behind a first message too.
func (c *consumption) print(message *sarama.ConsumerMessage) {
	var offsets []int64
	var values []string
	for message != nil {
		offsets = append(offsets, message.Offset)
		values = append(values, string(message.Value))
		c.session.MarkMessage(message, "")
		select {
		case message = <-c.claim.Messages():
		default:
			message = nil
		}
	}
	members.Records(c.claim.Partition(), offsets, values)
}

// commit commits what is marked of every claim, and what could not be committed before. It prints nothing: errors
// come by the group's channel, success does not show.
func (c *consumption) commit() {
	c.handler.committing.Lock()
	defer c.handler.committing.Unlock()
	c.session.Commit()
}
