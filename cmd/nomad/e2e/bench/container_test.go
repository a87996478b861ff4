package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
)

// BenchmarkContainerStarts prints how many containers a node starts in a second, and what part that is of the containers
// that the engine starts when nothing but this program asks for them. Rounds of both take turns.
func BenchmarkContainerStarts(b *testing.B) {
	const n, rounds = 20, 3
	a := kit.Prepare(b)
	e, err := enginetest.Start(a.Dir + "/e")
	if errors.Is(err, enginetest.ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Stop(); err != nil {
			b.Error(err)
		}
	})
	config, err := os.OpenFile(a.Dir+"/agent.hcl", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	_, err = fmt.Fprintf(config, "\nplugin \"docker\" {\n config {\n endpoint = %q\n }\n }\n", e.Host)
	if err := errors.Join(err, config.Close()); err != nil {
		b.Fatal(err)
	}
	a.Launch()
	keyed(a)
	node, alone := make([]time.Duration, rounds), make([]time.Duration, rounds)
	used := time.Duration(0)
	for i := range rounds {
		alone[i] = startAlone(b, e, fmt.Sprintf("%s/%d-", a.Dir, i), n)
		job := kit.ShellJob(fmt.Sprint("containers-", i), "")
		number, memory := n, 16
		job.TaskGroups[0].Count = &number
		task := job.TaskGroups[0].Tasks[0]
		task.Driver, task.Resources.MemoryMB = "docker", &memory
		task.Config = map[string]any{"image": enginetest.Image, "network_mode": "none", "args": []string{"sleep"}}
		used -= onProcessor(a.PID())
		began := time.Now()
		a.Register(job)
		count(a, n, "running")
		node[i] = time.Since(began)
		used += onProcessor(a.PID())
		a.Stop(*job.ID, true)
		a.Until(time.Minute, "no container", func() error {
			list, err := e.Client.ContainerList(b.Context(), client.ContainerListOptions{All: true})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d containers", len(list.Items))
			}
			return err
		})
	}
	b.Logf("node %v, engine alone %v", node, alone)
	b.ReportMetric(n/median(node).Seconds(), "containers/s")
	b.ReportMetric(n/median(alone).Seconds(), "containers/s-alone")
	b.ReportMetric(median(alone).Seconds()/median(node).Seconds(), "of-engine")
	b.ReportMetric(ms(used)/(n*rounds), "cpu-ms-agent/task")
	b.ReportMetric(0, "ns/op")
}

// startAlone returns how long the engine takes for n containers like those of the node, and as many at a time. It removes them.
func startAlone(b *testing.B, e *enginetest.Engine, dirs string, n int) time.Duration {
	b.Helper()
	image, err := e.Client.ImageInspect(b.Context(), enginetest.Image)
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, n)
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(max(8, 4*runtime.NumCPU())) // as the driver
	for i := range n {
		all.Go(func() error {
			host := &container.HostConfig{NetworkMode: "none", Resources: container.Resources{Memory: 16 << 20, MemorySwap: 16 << 20, CPUShares: 100}}
			for _, dir := range []string{"/alloc", "/local", "/secrets"} {
				source := fmt.Sprintf("%s%d%s", dirs, i, dir)
				if err := os.MkdirAll(source, 0o700); err != nil {
					return err
				}
				host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: source, Target: dir})
			}
			made, err := e.Client.ContainerCreate(b.Context(), client.ContainerCreateOptions{
				Config: &container.Config{Image: image.ID, Cmd: []string{"sleep"}}, HostConfig: host,
			})
			if err != nil {
				return err
			}
			ids[i] = made.ID
			_, err = e.Client.ContainerStart(b.Context(), made.ID, client.ContainerStartOptions{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	for _, id := range ids {
		all.Go(func() error {
			_, err := e.Client.ContainerRemove(b.Context(), id, client.ContainerRemoveOptions{Force: true})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}
