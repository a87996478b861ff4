package rules

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// Bounds that no configuration lifts: what a job says is added up, compared with each other and placed.
const (
	// AllocsMax is how many allocations, and how many canaries, a job may ask for.
	AllocsMax = 250_000
	// QuantityMax bounds MHz, MB and Mbit/s: sums over the tasks of a job, in bytes too, do not run over.
	QuantityMax = 1 << 40
	// coresMax bounds the cores of a task.
	coresMax = 1 << 16
	// attemptsMax bounds the restarts of a policy, rescheduleMax its reschedules: all of them are kept.
	attemptsMax   = 1 << 16
	rescheduleMax = 1000
	// entriesMax bounds each list and map of a job.
	entriesMax = 10_000
	// volumesMax bounds the volumes of a group, which are compared with each other, volumesSum those of a job.
	volumesMax = 100
	volumesSum = 10_000
	// mistakesMax is how many errors of a job are reported.
	mistakesMax = 100
)

// plus adds what is not negative; it stays at the largest number.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// Asked is how many allocations and how many canaries a job asks for.
func Asked(j *api.Job) (allocs, canaries int) {
	for _, g := range j.TaskGroups {
		allocs = plus(allocs, max(g.Count, 0))
		if u := g.Update; u != nil && !everywhere(j) {
			canaries = plus(canaries, max(u.Canary, 0))
		}
	}
	return allocs, canaries
}

// Excess returns what a job requests beyond the limit, or nil.
func Excess(j *api.Job, countMax int) error {
	allocs, canaries := Asked(j)
	switch {
	case allocs > countMax:
		return fmt.Errorf("job asks for %d allocations, at most %d are allowed", allocs, countMax)
	case canaries > countMax:
		return fmt.Errorf("job asks for %d canaries, at most %d are allowed", canaries, countMax)
	}
	return nil
}

// atMost refuses a number beyond its bound.
func (c *check) atMost(n, limit int, format string, args ...any) {
	if n > limit {
		c.wrong(true, "%s: %d, at most %d is possible", fmt.Sprintf(format, args...), n, limit)
	}
}

// Breadth refuses lists and maps of many entries, before anything walks through them. Groups must not be nil.
func Breadth(j *api.Job) error {
	tasks, volumes := 0, 0
	for _, g := range j.TaskGroups {
		tasks += len(g.Tasks)
		volumes += len(g.Volumes)
	}
	if volumes > volumesSum {
		return fmt.Errorf("job has %d volumes, at most %d are possible", volumes, volumesSum)
	}
	if tasks > bounds.TasksMax {
		return fmt.Errorf("job has %d tasks, at most %d are possible", tasks, bounds.TasksMax)
	}
	b := breadths{left: bounds.EntriesMax}
	return b.of(reflect.ValueOf(j), "")
}

// breadths counts the entries of all lists and maps.
type breadths struct{ left int }

func (b *breadths) of(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return b.of(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || plain(f.Type.Kind()) {
				continue
			}
			if err := b.of(v.Field(i), path+"."+f.Name); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		if err := b.take(v.Len(), path); err != nil || plain(v.Type().Elem().Kind()) {
			return err
		}
		for i := range v.Len() {
			if err := b.of(v.Index(i), path+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	case reflect.Map:
		if err := b.take(v.Len(), path); err != nil || plain(v.Type().Elem().Kind()) {
			return err
		}
		for i := v.MapRange(); i.Next(); {
			if err := b.of(i.Value(), path+"["+brief(fmt.Sprint(i.Key()))+"]"); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain reports kinds that hold no lists.
func plain(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

func (b *breadths) take(n int, path string) error {
	if n > entriesMax {
		return fmt.Errorf("job%s has %d entries, at most %d are possible", path, n, entriesMax)
	}
	if b.left -= n; b.left < 0 {
		return fmt.Errorf("job has more than %d entries in its lists and maps", bounds.EntriesMax)
	}
	return nil
}
