package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func TestFault12CreateAndDelete(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, true)
	remove := func(id string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, b.API.Address()+"/v1/volume/csi/"+id+"/delete", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	}
	var shown []string
	for i, f := range []script.Fault{
		{Code: unavailable, Text: "the array reboots"},
		{Code: deadlineExceeded, Text: "too slow", Lost: true},
		{Hang: true},
	} {
		id := fmt.Sprint("v", i)
		for _, rpc := range []string{"CreateVolume", "DeleteVolume"} {
			f.RPC = rpc
			b.faults(f)
			done := make(chan error, 1)
			go func() {
				if rpc == "CreateVolume" {
					done <- b.tryCreate(id)
				} else {
					done <- remove(id)
				}
			}()
			b.Until(10*time.Second, rpc, func() error {
				if len(b.calls("", rpc)) <= i {
					return fmt.Errorf("no call")
				}
				return nil
			})
			<-time.After(2 * time.Second)
			b.faults()
			began := time.Now()
			err := <-done
			b.Until(15*time.Second, rpc+" to be carried out", func() error {
				there := b.exists(id) == nil
				if stored := len(b.stored()) > 0; there != (rpc == "CreateVolume") || stored != there {
					return fmt.Errorf("volume known: %v, at the driver: %v, the caller got %v", there, stored, err)
				}
				return nil
			})
			shown = append(shown, short(time.Since(began)))
		}
		delete(b.volumes, id)
	}

	// What the driver refuses for good is told at once and leaves nothing.
	b.faults(script.Fault{RPC: "CreateVolume", Code: invalidArgument, Text: "no room for giraffes"})
	began := time.Now()
	err := b.tryCreate("bad")
	refused := time.Since(began)
	if err == nil || !strings.Contains(err.Error(), "no room for giraffes") {
		t.Errorf("the refusal was told as %v", err)
	}
	b.faults()
	if b.exists("bad") == nil {
		t.Error("a refused volume exists")
	}
	b.clean()
	b.within("the refusal", refused, 2*time.Second)
	b.row(12, "create and delete: unavailable, answer lost, hang; cleared after 2 s", "done after "+strings.Join(shown, ", ")+"; refusal told after "+short(refused), "recovers <= 10 s; no orphan; final codes at once")
}
