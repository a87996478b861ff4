package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// use is an operation on a single-writer volume: "register" it by a number, "deregister" it, "read" it, "take" it for a
// job that is submitted, or "give" it back by stopping the job.
type use struct {
	volume, op, job string
	number          int
}

func (u use) wrote() (string, int) {
	if u.op != "register" {
		return u.volume, 0
	}
	return u.volume, u.number
}

func (u use) saw(out any) (string, int) {
	if u.op != "read" {
		return u.volume, 0
	}
	return u.volume, out.(claimed).number
}

func (u use) replaces() bool { return false }

// claimed is a volume as it was read: the number that it is registered by, 0 when it is not registered, and the jobs that
// hold claims on it. As the outcome of an operation, refused says that the volume's state did not permit it.
type claimed struct {
	number  int
	holder  string
	refused bool
}

// oneHolder is the rule that histories of volumes must keep: one job at a time holds a volume, and a volume that is
// held is not deregistered.
var oneHolder = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		return parts(history, func(in any) string { return in.(use).volume })
	},
	Init: func() []any { return []any{claimed{number: 1}} },
	Step: func(state, input, output any) []any {
		was, in := state.(claimed), input.(use)
		after, permitted := was, false
		switch in.op {
		case "read":
			if output.(claimed) == was {
				return []any{was}
			}
			return nil
		case "register":
			permitted = was.number == 0 || was.number == in.number
			after.number = in.number
		case "deregister":
			permitted = was.number != 0 && was.holder == ""
			after.number = 0
		case "take":
			permitted = was.number != 0 && was.holder == ""
			after.holder = in.job
		case "give":
			permitted = was.holder == in.job
			after.holder = ""
		}
		out, known := output.(claimed)
		switch {
		case !known && permitted: // it may have been done
			return []any{was, after}
		case !known, out.refused && !permitted:
			return []any{was}
		case !out.refused && permitted:
			return []any{after}
		}
		return nil
	},
}).ToModel()

// tenant is a client that uses volumes.
type tenant struct {
	id      int
	h       *history
	servers []*kit.Host
	rnd     *rand.Rand
	next    func() int
	// external are the ids of the volumes at their provider.
	external map[string]string
	takes    int
}

// at is a client of any server.
func (u *tenant) at() *api.Client {
	s := u.servers[u.rnd.IntN(len(u.servers))]
	at, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://%s:4646", s.IP), HttpClient: &http.Client{Timeout: 2 * time.Second}})
	if err != nil {
		panic(err)
	}
	return at
}

// refusal returns whether the error is an answer that depends on the state, and err itself otherwise.
func refusal(err error) (bool, error) {
	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.StatusCode() < 500 && answer.StatusCode() != http.StatusTooManyRequests {
		return true, nil
	}
	return false, err
}

// read reads the volume and returns who holds it; an error says nothing about it.
func (u *tenant) read(volume string) (claimed, error) {
	in, call := use{volume: volume, op: "read"}, u.h.now()
	var body struct {
		Name   string
		Claims []struct{ JobID string }
	}
	_, err := u.at().Raw().Query("/v1/volume/csi/"+volume, &body, nil)
	var out claimed
	if missing, other := refusal(err); missing || other != nil {
		u.h.add(u.id, in, out, call, other)
		return out, other
	}
	if _, err := fmt.Sscanf(body.Name, "number-%d", &out.number); err != nil {
		out.number = 1
	}
	var holders []string
	for _, c := range body.Claims {
		holders = append(holders, c.JobID)
	}
	out.holder = strings.Join(holders, " ")
	u.h.add(u.id, in, out, call, nil)
	return out, nil
}

// administer registers, deregisters and reads volumes until ctx ends.
func (u *tenant) administer(ctx context.Context, volumes []string) {
	for ctx.Err() == nil {
		in := use{volume: volumes[u.rnd.IntN(len(volumes))], op: "register"}
		call := u.h.now()
		var err error
		switch u.rnd.IntN(3) {
		case 0:
			_, _ = u.read(in.volume)
			continue
		case 1:
			in.number = u.next()
			v := kit.SingleWriter("hp", in.volume)
			v.Name, v.ExternalID = fmt.Sprint("number-", in.number), u.external[in.volume]
			_, err = u.at().CSIVolumes().Register(v, nil)
		default:
			in.op = "deregister"
			err = u.at().CSIVolumes().Deregister(in.volume, false, nil)
		}
		refused, err := refusal(err)
		u.h.add(u.id, in, claimed{refused: refused}, call, err)
		<-time.After(5 * time.Millisecond)
	}
}

// takeTurns submits jobs that use volumes and stops them again, until ctx ends. Each step is repeated until its
// effect is seen, so that its outcome is known.
func (u *tenant) takeTurns(ctx context.Context, volumes []string) {
	for n := 0; ctx.Err() == nil; n++ {
		volume, job := volumes[u.rnd.IntN(len(volumes))], fmt.Sprintf("tenant%d-%d", u.id, n)
		done := u.do(ctx, use{volume: volume, op: "take", job: job}, func() error {
			// A submission that comes late must not start a job again that was stopped.
			_, _, err := u.at().Jobs().RegisterOpts(kit.WithVolume(kit.ShellJob(job, forever), volume), &api.RegisterOptions{EnforceIndex: true}, nil)
			_, err = refusal(err)
			return err
		}, func(now claimed) bool { return now.holder == job })
		u.do(ctx, use{volume: volume, op: "give", job: job}, func() error {
			_, _, err := u.at().Jobs().Deregister(job, false, nil)
			return err
		}, func(now claimed) bool { return !done || now.holder != job })
		u.takes++
	}
}

// do repeats the call until it is answered, and reads the volume until it is as wanted; false when ctx ended before.
func (u *tenant) do(ctx context.Context, in use, call func() error, wanted func(claimed) bool) bool {
	began := u.h.now()
	for pending := true; ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
		if pending {
			pending = call() != nil
			continue
		}
		if now, err := u.read(in.volume); err == nil && wanted(now) {
			u.h.add(u.id, in, claimed{}, began, nil)
			return true
		}
	}
	u.h.add(u.id, in, nil, began, ctx.Err())
	return false
}

// useVolumes has clients use volumes of the cluster at all servers until ctx ends; the number of claims is known after
// the group's end.
func (c *cluster) useVolumes(ctx context.Context, h *history, next func() int, group *sync.WaitGroup) (storage string, takes func() int) {
	any := c.leader(nil)
	plugin := any.PluginJob("hp")
	storage = c.lab.Path("storage")
	plugin.TaskGroups[0].Tasks[0].Config["args"].([]string)[2] = storage
	any.Register(plugin)
	any.PluginOn("hp", 1)
	volumes, external := []string{"v1", "v2"}, map[string]string{}
	for _, v := range volumes {
		any.CreateVolume("hp", v)
		info, _, err := any.API.CSIVolumes().Info(v, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		external[v] = info.ExternalID
	}
	var all []*tenant
	for i := range 4 {
		u := &tenant{id: 10 + i, h: h, servers: c.servers, rnd: rand.New(rand.NewPCG(2, uint64(i))), next: next, external: external}
		all = append(all, u)
		work := u.takeTurns
		if i == 0 {
			work = u.administer
		}
		group.Go(func() { work(ctx, volumes) })
	}
	return storage, func() (n int) {
		for _, u := range all {
			n += u.takes
		}
		return n
	}
}
