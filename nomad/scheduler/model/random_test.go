package model_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
)

var sequences = flag.Int("sequences", sequencesUsual, "how many random sequences are played; -rapid.seed 0 draws others each time")

func TestMain(m *testing.M) {
	flag.Parse()
	asked := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(*sequences), "rapid.seed": "1"} { // the same ones each time
		if !asked[name] {
			_ = flag.Set(name, value)
		}
	}
	os.Exit(m.Run())
}

// playing plays steps in a world of its own and answers what is wrong.
func playing(t *testing.T, steps []step) error { return playingOn(t, 1, 0, steps) }

// playingOn is playing with several workers over a log that takes its time.
func playingOn(t *testing.T, workers int, slow time.Duration, steps []step) (err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workers, slow)
		defer w.stop()
		err = w.play(steps)
	})
	return err
}

// Whatever users, nodes and clients do in whatever order, what comes of it is what the specification says.
func TestEverySequenceEndsAsTheSpecificationSays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := drawNodes(r)
		for range rapid.IntRange(1, 18).Draw(r, "steps") {
			steps = append(steps, drawStep(r))
		}
		if err := playing(t, steps); err != nil {
			for i, s := range steps {
				r.Log(i, s.name)
			}
			r.Fatal(err)
		}
	})
}

// Plans that wait for the log together are verified on top of each other. What comes of it is the same.
func TestEverySequenceEndsSoWhenPlansGather(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := drawNodes(r)
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			var all []step
			for range rapid.IntRange(1, 4).Draw(r, "together") {
				all = append(all, register(drawJob(r, drawn(r, "web", "crunch", "sum", "agent"))))
			}
			steps = append(steps, preempt(rapid.Bool().Draw(r, "service"), rapid.Bool().Draw(r, "batch")), together(all...))
		}
		if err := playingOn(t, 4, time.Second, steps); err != nil {
			for i, s := range steps {
				r.Log(i, s.name)
			}
			r.Fatal(err)
		}
	})
}

const nodesMax = 5

func drawNodes(r *rapid.T) (steps []step) {
	for i := range rapid.IntRange(1, nodesMax).Draw(r, "nodes") {
		steps = append(steps, nodeUp(fmt.Sprint("n", i), rack(i), mhz(i)))
	}
	return steps
}

func rack(i int) string { return []string{"a", "b"}[i%2] }
func mhz(i int) int64   { return int64(1000 + 500*(i%3)) }

var jobIDs = []string{"web", "site", "crunch", "sum", "agent", "sweep", "tick", "form"}

func drawStep(r *rapid.T) step {
	n := rapid.IntRange(0, nodesMax-1).Draw(r, "node")
	node, id := fmt.Sprint("n", n), rapid.SampledFrom(jobIDs).Draw(r, "job")
	known := func(s step) step { // of nodes that there are
		return step{s.name, func(w *world) error {
			if w.store.Read().Node(node) == nil {
				return nil
			}
			return s.do(w)
		}}
	}
	pick := rapid.IntRange(0, 50).Draw(r, "pick")
	switch rapid.SampledFrom([]string{
		"register", "register", "register", "register", "scale", "stop", "up", "up", "down", "eligible", "ineligible", "drain",
		"fails", "ends", "user", "finish", "promote", "promote", "decide", "launch", "preempt", "evaluate",
		"cut off", "both down", "moved too late", "out of sight", "closed meanwhile",
	}).Draw(r, "what") {
	case "register":
		return register(drawJob(r, id))
	case "scale":
		return scale(drawn(r, "web", "site", "crunch", "sum"), int64(rapid.IntRange(0, 5).Draw(r, "count")))
	case "stop":
		return stopJob(id, rapid.Bool().Draw(r, "purge"))
	case "up":
		return nodeUp(node, rack(n), mhz(n))
	case "down":
		return known(nodeDown(node))
	case "eligible":
		return known(eligible(node, true))
	case "ineligible":
		return known(eligible(node, false))
	case "drain":
		return known(step{"drain " + node, func(w *world) error {
			if !onLivingNode(w.store.Read(), &api.Allocation{NodeID: node}) {
				return nil
			}
			return drain(node).do(w)
		}})
	case "fails":
		return end("", pick, "fails")
	case "ends":
		return end("", pick, "ends")
	case "user":
		return end("", pick, "user")
	case "finish":
		return finish(drawn(r, "crunch", "sum", "sweep"))
	case "promote":
		return decide("site", "promote")
	case "decide":
		return decide("site", drawn(r, "fail", "pause", "resume"))
	case "cut off":
		return known(cutOff(node))
	case "both down":
		return known(bothDown(node, fmt.Sprint("n", (n+1)%nodesMax)))
	case "moved too late":
		return known(movedTooLate(node))
	case "out of sight":
		return known(outOfSight(node, nodeUp(node, rack(n), mhz(n))))
	case "closed meanwhile":
		return known(closedMeanwhile(node, register(drawJob(r, id))))
	case "launch":
		return launch(drawn(r, "tick", "form"))
	case "preempt":
		return preempt(rapid.Bool().Draw(r, "service"), rapid.Bool().Draw(r, "batch"))
	}
	return evaluate(id)
}

func drawn(r *rapid.T, of ...string) string { return rapid.SampledFrom(of).Draw(r, "which") }

func drawJob(r *rapid.T, id string) want {
	j := want{
		id: id, kind: api.JobTypeBatch, priority: rapid.SampledFrom([]int{30, 39, 50, 80}).Draw(r, "priority"),
		work: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "work"),
	}
	if id == "web" || id == "crunch" {
		j.silence = rapid.SampledFrom([]string{"", endsAlone}).Draw(r, "silence")
	}
	if id == "sum" {
		j.silence = rapid.SampledFrom([]string{"", mayReturn}).Draw(r, "silence")
	}
	j.atOnce = (id == "web" || id == "crunch") && rapid.IntRange(0, 3).Draw(r, "at once") == 0
	for range rapid.SampledFrom([]int{1, 1, 2}).Draw(r, "groups") {
		j.groups = append(j.groups, groupWant{
			count: rapid.IntRange(0, 4).Draw(r, "count"), cpu: rapid.SampledFrom([]int{200, 400, 700, 1100}).Draw(r, "cpu"),
			rule: rapid.SampledFrom(rules).Draw(r, "rule"),
		})
	}
	switch id {
	case "web":
		j.kind = api.JobTypeService
	case "site":
		j.kind = api.JobTypeService
		j.groups = j.groups[:1]
		j.sick = rapid.IntRange(0, 4).Draw(r, "sick") == 0
		j.roll = &api.UpdateStrategy{
			MaxParallel: rapid.IntRange(1, 3).Draw(r, "max parallel"), Canary: rapid.IntRange(0, 2).Draw(r, "canary"),
			AutoRevert: rapid.Bool().Draw(r, "auto revert"), AutoPromote: rapid.Bool().Draw(r, "auto promote"),
			HealthCheck: "task_states", HealthyDeadline: 5 * time.Minute, MinHealthyTime: time.Second,
		}
		j.roll.AutoPromote = j.roll.AutoPromote && j.roll.Canary > 0
	case "agent":
		j.kind = api.JobTypeSystem
	case "sweep":
		j.kind = api.JobTypeSysbatch
	case "tick":
		j.launch = "periodic"
	case "form":
		j.launch = "parameterized"
	}
	if j.kind == api.JobTypeSystem || j.kind == api.JobTypeSysbatch {
		for i := range j.groups {
			j.groups[i].count = min(1, j.groups[i].count)
			if g := &j.groups[i]; g.rule == distinct || g.rule == onePerDen {
				g.rule = anywhere
			}
		}
	}
	return j
}
