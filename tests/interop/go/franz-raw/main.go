// Command franz-raw sends a request as it is given, by franz-go, and prints what comes back.
//
//	franz-raw BOOTSTRAP KEY VERSION REQUEST
//
// REQUEST is the JSON of franz-go's own struct of the request; what it leaves out has its default, but not inside of
// arrays. Nothing is retried, sent elsewhere or split. The answer is printed as JSON, too.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kcli.interop/go/records"
)

const deadline = 30 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	key, version := int16(records.Number(os.Args[2])), int16(records.Number(os.Args[3]))
	request := kmsg.RequestForKey(key)
	records.Check(json.Unmarshal([]byte(os.Args[4]), request))
	records.Check(json.NewEncoder(os.Stdout).Encode(ask(ctx, os.Args[1], version, request)))
}

// ask sends a request in one version; the client itself would take the newest that both sides know.
func ask(ctx context.Context, bootstrap string, version int16, request kmsg.Request) kmsg.Response {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(request.Key(), version)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.MaxVersions(versions))
	records.Check(err)
	defer client.Close()
	response, err := client.SeedBrokers()[0].Request(ctx, request)
	records.Check(err)
	if response.GetVersion() != version {
		records.Check(fmt.Errorf("version %d instead of %d", response.GetVersion(), version))
	}
	return response
}
