package bench

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// BenchmarkColdStart prints the time from the start of a new agent that is server and client to its leader, its first
// write and its ready node, and the size of the program.
func BenchmarkColdStart(b *testing.B) {
	const rounds = 7
	var leader, write, ready []time.Duration
	for i := range rounds {
		a := kit.Prepare(b)
		began := time.Now()
		a.Spawn()
		soon(b, func() bool {
			address, err := a.API.Status().Leader()
			return err == nil && address != ""
		})
		leader = append(leader, time.Since(began))
		job := kit.ShellJob(fmt.Sprint("first-", i), "exit 0")
		none := 0
		job.TaskGroups[0].Count = &none
		soon(b, func() bool {
			_, _, err := a.API.Jobs().Register(job, nil)
			return err == nil
		})
		write = append(write, time.Since(began))
		soon(b, func() bool {
			nodes, _, err := a.API.Nodes().List(nil)
			return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
		})
		ready = append(ready, time.Since(began))
		if info, err := os.Stat(a.Binary); err == nil {
			b.ReportMetric(float64(info.Size())/1e6, "MB-binary")
		}
		a.Kill()
	}
	b.ReportMetric(ms(median(leader)), "ms-leader")
	b.ReportMetric(ms(median(write)), "ms-first-write")
	b.ReportMetric(ms(median(ready)), "ms-node-ready")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle prints the memory and the processor time of an agent, server and client, that was started a minute ago
// and has nothing to do.
func BenchmarkIdle(b *testing.B) {
	const minute = time.Minute
	a := kit.Start(b)
	<-time.After(minute / 2)
	used := -onProcessor(a.PID())
	<-time.After(minute / 2)
	used += onProcessor(a.PID())
	b.ReportMetric(float64(a.MemoryKB(a.PID(), "Rss"))*1024/1e6, "MB-idle-agent")
	b.ReportMetric(ms(used)/(minute/2).Seconds(), "cpu-ms/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLeaderKilled prints the time from the end of the leader of three servers, by kill -9, to the next write that any
// server answers.
func BenchmarkLeaderKilled(b *testing.B) {
	const rounds = 10
	lab := kit.NewLab(b)
	var servers []*kit.Host
	for i := range 3 {
		servers = append(servers, lab.Host(fmt.Sprint("s", i+1)))
	}
	for _, s := range servers {
		s.Serve(servers, kit.Quick)
	}
	var took []time.Duration
	for i := range rounds {
		leader := led(servers)
		leader.Kill9()
		began := time.Now()
		job := kit.ShellJob(fmt.Sprint("after-", i), "exit 0")
		none := 0
		job.TaskGroups[0].Count = &none
		soon(b, func() bool {
			for _, s := range servers {
				at, err := api.NewClient(&api.Config{Address: s.API.Address(), HttpClient: &http.Client{Timeout: time.Second}})
				if err != nil {
					b.Fatal(err)
				}
				if s == leader {
					continue
				}
				if _, _, err := at.Jobs().Register(job, nil); err == nil {
					return true
				}
			}
			return false
		})
		took = append(took, time.Since(began))
		leader.Restart()
	}
	b.ReportMetric(ms(median(took)), "ms-median")
	b.ReportMetric(ms(slices.Max(took)), "ms-worst")
	b.ReportMetric(0, "ns/op")
}

// led waits until all servers name one leader and all have a vote.
func led(servers []*kit.Host) (leader *kit.Host) {
	servers[0].Until(time.Minute, "a leader of three voters", func() error {
		leader = nil
		named := map[string]int{}
		for _, s := range servers {
			address, err := s.API.Status().Leader()
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			named[address]++
			conf, err := s.API.Operator().RaftGetConfiguration(nil)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			voters := 0
			for _, peer := range conf.Servers {
				if peer.Voter {
					voters++
				}
			}
			if voters != len(servers) {
				return fmt.Errorf("%d voters", voters)
			}
		}
		for _, s := range servers {
			if named[s.IP+":4647"] == len(servers) {
				leader = s
				return nil
			}
		}
		return fmt.Errorf("leaders by servers: %v", named)
	})
	return leader
}

// soon asks every millisecond until the answer is yes.
func soon(b *testing.B, done func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Minute); !done(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("it did not come about within a minute")
		}
	}
}
