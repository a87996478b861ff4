package workqueue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/workqueue"
)

// What is asked for while its key is being tried is not lost, whether now or for later.
func TestKeyThatIsAddedDuringItsTryIsTriedAgain(t *testing.T) {
	for name, add := range map[string]func(*workqueue.Queue){
		"now":   func(q *workqueue.Queue) { q.Add("k") },
		"later": func(q *workqueue.Queue) { q.After("k", 3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.New(time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				tries := 0
				q.Add("k")
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					q.Run(ctx, func(context.Context, string) error {
						if tries++; tries == 1 {
							add(q)
						}
						return nil
					})
				}()
				time.Sleep(time.Minute)
				cancel()
				<-ended
				if tries != 2 {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

func TestFailedKeyIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Time
		q.Add("k")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q.Run(ctx, func(context.Context, string) error {
				if at = append(at, time.Now()); len(at) < 6 {
					return errors.New("not yet")
				}
				return nil
			})
		}()
		time.Sleep(time.Hour)
		cancel()
		<-ended
		if len(at) != 6 || at[5].Sub(at[4]) > 15*time.Second || at[5].Sub(at[4]) <= at[1].Sub(at[0]) {
			t.Errorf("tried at %v", at)
		}
	})
}
