// kfake in a process of its own: prints its bootstrap server and serves until it is killed.
package main

import (
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1), kfake.AllowAutoTopicCreation())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready:", cluster.ListenAddrs()[0])
	select {}
}
