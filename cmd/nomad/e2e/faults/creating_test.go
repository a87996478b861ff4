package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// tier describes a volume of a kind that the driver knows or not.
func tier(name string) map[string]any {
	return map[string]any{"Parameters": map[string]string{"tier": name}}
}

// orphans are volumes at the driver that no volume of the servers is.
func (b *bed) orphans() (found []string) {
	b.t.Helper()
	list, _, err := b.API.CSIVolumes().List(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	known := map[string]bool{}
	for _, v := range list {
		known[v.ExternalID] = true
	}
	for _, file := range b.stored() {
		var v struct{ ID, Name string }
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			b.t.Fatal(err)
		}
		if !known[v.ID] {
			found = append(found, v.Name)
		}
	}
	return found
}

// later creates a volume in the background, as a user does who looks at it meanwhile.
func (b *bed) later(id string, more map[string]any) (answer <-chan string) {
	ended := make(chan string, 1)
	go func() {
		body, code := b.create(id, more)
		ended <- fmt.Sprint(code, " ", body)
	}()
	return ended
}

func TestCreationThatFailedIsCorrectedOrGivenUp(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, false)
	for _, code := range []int{unknown, internal} {
		bad := script.Fault{RPC: "CreateVolume", Parameter: "tier=glod", Code: code, Text: "no such tier"}
		for _, way := range []string{"corrected", "given up"} {
			id := fmt.Sprintf("v%d%s", code, way[:2])
			b.faults(bad)
			before := len(b.calls("", "CreateVolume"))
			ended := b.later(id, tier("glod"))
			b.Until(15*time.Second, "the driver to refuse", func() error {
				if len(b.calls("", "CreateVolume")) == before {
					return fmt.Errorf("no call")
				}
				if known, _ := b.inUse(id); !known {
					return fmt.Errorf("the servers do not know it")
				}
				return nil
			})
			var first string
			select {
			case first = <-ended:
				if !strings.Contains(first, "no such tier") {
					t.Errorf("code %d: the answer does not say what the driver said: %s", code, first)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("code %d: no answer after 20 s; %s", code, b.waits(id))
			}
			if way == "corrected" {
				if answer, got := b.create(id, tier("gold")); got != 200 {
					t.Errorf("code %d: the corrected creation: %d %s", code, got, answer)
					continue
				}
				if err := b.exists(id); err != nil {
					t.Errorf("code %d: %v", code, err)
				}
			}
			// That the driver did not say what it made is told with the end of it.
			if err := b.tryDelete(id); err != nil && (way == "corrected" || !strings.Contains(err.Error(), "is forgotten")) {
				t.Errorf("code %d, %s: delete: %v", code, way, err)
			}
			if known, _ := b.inUse(id); known {
				t.Errorf("code %d, %s: the servers keep it", code, way)
			}
			delete(b.volumes, id)
		}
	}
	b.faults()
	b.noOrphan()
	b.clean()
	b.figure("a creation ends with UNKNOWN or INTERNAL", "the corrected one works, delete gives up", "no orphan, one command each")
}

// noOrphan waits until the driver has nothing that the servers do not know.
func (b *bed) noOrphan() {
	b.t.Helper()
	b.Until(20*time.Second, "no orphan", func() error {
		if left := b.orphans(); len(left) > 0 {
			return fmt.Errorf("the driver has %q", left)
		}
		return nil
	})
}

func TestVolumeThatMayHaveBeenMadeIsNoOrphan(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, false)
	for i, last := range []script.Fault{
		{RPC: "CreateVolume", Code: unauthenticated, Text: "the token expired", Times: 2},
		{RPC: "CreateVolume", Code: invalidArgument, Text: "read the manual", Times: 2},
		{RPC: "CreateVolume", Code: notFound, Text: "no such pool", Times: 2},
	} {
		id := fmt.Sprint("v", i)
		b.faults(script.Fault{RPC: "CreateVolume", Code: deadlineExceeded, Text: "too slow", Lost: true, Times: 1}, last)
		ended := b.later(id, nil)
		b.Until(15*time.Second, "the driver to make it", func() error {
			if len(b.stored()) == 0 {
				return fmt.Errorf("it has none")
			}
			return nil
		})
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the creation was not answered", last.Text)
		}
		b.Until(30*time.Second, "delete after "+last.Text, func() error { return b.tryDelete(id) })
		b.faults()
		b.Until(30*time.Second, "nothing after "+last.Text, func() error {
			if left := b.stored(); len(left) > i {
				return fmt.Errorf("the driver has %q", left)
			}
			return nil
		})
	}
	b.clean()
	b.figure("created, the answer lost, then refused for good; deleted", "nothing left at the driver", "no orphan")
}
