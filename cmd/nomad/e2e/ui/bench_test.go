package ui

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// hourEvents is how many events an hour with ten events a second has.
const hourEvents = 36_000

// BenchmarkPage measures the page of a cluster with the jobs j0 to j9999: BenchmarkPage of cmd/nomad/bench starts that
// cluster and runs this one with its address.
func BenchmarkPage(b *testing.B) {
	address := os.Getenv("PAGE_ADDRESS")
	if address == "" {
		b.Skip("PAGE_ADDRESS names no cluster: run BenchmarkPage of cmd/nomad/bench")
	}
	page := newBrowser(b, address)
	var paint, list, filtered, typed []float64
	for range 7 {
		page.visit("/ui/jobs")
		list = append(list, page.shown("document.querySelectorAll('main tbody tr').length === 50"))
		paint = append(paint, eval[float64](page, "performance.getEntriesByName('first-contentful-paint')[0]?.startTime || performance.now()"))
		began := eval[float64](page, "performance.now()")
		page.fill("input[aria-label='Name contains']", "j123")
		typed = append(typed, page.shown("document.querySelectorAll('main tbody tr').length === 11")-began)
		page.visit("/ui/jobs?q=j123")
		filtered = append(filtered, page.shown("document.querySelectorAll('main tbody tr').length === 11"))
	}
	b.ReportMetric(paint[0], "ms-paint-cold")
	b.ReportMetric(middle(paint), "ms-paint")
	b.ReportMetric(middle(list), "ms-list")
	b.ReportMetric(middle(filtered), "ms-filtered")
	b.ReportMetric(middle(typed), "ms-typed")

	// The list of jobs and the page of the events stay open while events run through.
	events := newBrowser(b, address)
	page.visit("/ui/jobs")
	events.visit("/ui/events")
	c, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		b.Fatal(err)
	}
	warm, took := changes(b, c, hourEvents/6)
	before := []float64{page.heap(), events.heap()}
	n, took2 := changes(b, c, hourEvents)
	after := []float64{page.heap(), events.heap()}
	b.ReportMetric(float64(warm+n)/(took+took2).Seconds(), "events/s")
	b.ReportMetric(float64(n), "events")
	b.ReportMetric(before[0], "KB-heap-list")
	b.ReportMetric(after[0]-before[0], "KB-grown-list")
	b.ReportMetric(before[1], "KB-heap-events")
	b.ReportMetric(after[1]-before[1], "KB-grown-events")
	b.ReportMetric(0, "ns/op")
	page.clean()
	events.clean()
}

// shown waits for an expression and returns the milliseconds since the page was asked for.
func (b *browser) shown(script string) (ms float64) {
	b.t.Helper()
	for end := time.Now().Add(waitMax); ; {
		if ms = eval[float64](b, "("+script+") ? performance.now() : 0"); ms > 0 {
			return ms
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited for %s: %s", script, b.text())
		}
	}
}

// heap is the size of the objects of the page that are in use, in KB, after a garbage collection.
func (b *browser) heap() float64 {
	b.t.Helper()
	var out struct {
		Used float64 `json:"usedSize"`
	}
	b.do("measure the heap", chromedp.ActionFunc(func(ctx context.Context) error {
		for range 2 {
			if err := cdp.Execute(ctx, "HeapProfiler.collectGarbage", nil, nil); err != nil {
				return err
			}
		}
		return cdp.Execute(ctx, "Runtime.getHeapUsage", nil, &out)
	}))
	return out.Used / 1024
}

// changes registers jobs without allocations again and again until the event stream has reported n events.
func changes(b *testing.B, c *api.Client, n int) (int, time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	stream, err := c.EventStream().Stream(ctx, map[api.Topic][]string{"*": {"*"}}, 0, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		b.Fatal(err)
	}
	var seen atomic.Int64
	var writers sync.WaitGroup
	began := time.Now()
	for w := range 8 {
		writers.Go(func() {
			for i := 0; seen.Load() < int64(n) && ctx.Err() == nil; i++ {
				j := kit.ShellJob(fmt.Sprint("change", w), "true")
				j.TaskGroups[0].Count = ptr(0)
				j.Meta = map[string]string{"n": fmt.Sprint(i, began)}
				if _, _, err := c.Jobs().Register(j, nil); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for seen.Load() < int64(n) {
		select {
		case e := <-stream:
			if e == nil || e.Err != nil {
				b.Fatalf("the event stream ended: %v", e)
			}
			seen.Add(int64(len(e.Events)))
		case <-ctx.Done():
			b.Fatalf("%d of %d events", seen.Load(), n)
		}
	}
	writers.Wait()
	return int(seen.Load()), time.Since(began)
}

func middle(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
