// Command secured has franz-go or sarama at the listeners of a guarded broker.
//
//	secured CLIENT CELLS
//
// CELLS is what tests/interop/python/secured_login.py takes; so is what it prints.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/scram"

	"kcli.interop/go/records"
)

const patience = 20 * time.Second

type cell struct {
	Name, Bootstrap, Topic, Protocol, Mechanism, User, Password, Ca, Key string
}

func (c cell) tls() *tls.Config {
	if !strings.Contains(c.Protocol, "SSL") {
		return nil
	}
	authority, err := os.ReadFile(c.Ca)
	records.Check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(authority)
	if c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Key, c.Key)
		records.Check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func main() {
	log.SetOutput(io.Discard)
	var cells []cell
	records.Check(json.Unmarshal([]byte(os.Args[2]), &cells))
	attempt := map[string]func(cell) error{"franz-go": franz, "sarama": saramaClient}[os.Args[1]]
	for _, each := range cells {
		began := time.Now()
		said := "yes"
		if err := attempt(each); err != nil {
			said = nameOf(err)
		}
		fmt.Printf("%s\t%s\t%.1f\n", each.Name, said, time.Since(began).Seconds())
	}
}

func nameOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	if strings.Contains(err.Error(), "SASL Authentication failed") || errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		return "ErrSASLAuthenticationFailed"
	}
	return err.Error()
}

func franz(c cell) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap),
		kgo.ConsumeTopics(c.Topic),
		kgo.ConsumerGroup(c.Topic + "-" + c.Name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RetryTimeout(5 * time.Second),
		kgo.RecordRetries(2),
	}
	if config := c.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if c.Mechanism != "" {
		auth := franzscram.Auth{User: c.User, Pass: c.Password}
		mechanism := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: c.User, Pass: c.Password}.AsMechanism(),
			"SCRAM-SHA-256": auth.AsSha256Mechanism(),
			"SCRAM-SHA-512": auth.AsSha512Mechanism(),
		}[c.Mechanism]
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	// A wrong password is no reason to try again, which only Ping tells.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: c.Topic, Value: []byte("value")}).FirstErr(); err != nil {
		return err
	}
	fetches := client.PollFetches(ctx)
	if fetches.NumRecords() == 0 {
		return errors.Join(errors.New("nothing was read"), fetches.Err())
	}
	return nil
}

type conversation struct {
	hash  scram.HashGeneratorFcn
	steps *scram.ClientConversation
}

func (s *conversation) Begin(user, password, authorization string) error {
	client, err := s.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	s.steps = client.NewConversation()
	return nil
}

func (s *conversation) Step(challenge string) (string, error) { return s.steps.Step(challenge) }

func (s *conversation) Done() bool { return s.steps.Done() }

type reader struct{ got chan struct{} }

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r reader) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if _, ok := <-claim.Messages(); ok {
		r.got <- struct{}{}
	}
	return nil
}

func saramaClient(c cell) error {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Metadata.Retry.Max = 1
	if settings := c.tls(); settings != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, settings
	}
	if c.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(c.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = c.User, c.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if c.Mechanism == "SCRAM-SHA-256" {
				return &conversation{hash: func() hash.Hash { return sha256.New() }}
			}
			return &conversation{hash: func() hash.Hash { return sha512.New() }}
		}
	}
	client, err := sarama.NewClient([]string{c.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	defer producer.Close()
	message := &sarama.ProducerMessage{Topic: c.Topic, Value: sarama.StringEncoder("value")}
	if _, _, err := producer.SendMessage(message); err != nil {
		return err
	}
	group, err := sarama.NewConsumerGroupFromClient(c.Topic+"-"+c.Name, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() { done <- group.Consume(ctx, []string{c.Topic}, reader{got}) }()
	select {
	case <-got:
		cancel()
		return group.Close()
	case <-ctx.Done():
		return errors.New("nothing was read")
	}
}
