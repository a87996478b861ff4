package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
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

// The end of the agent does not hang on what hangs in the kernel.
func TestEndLeavesHungTriesBehindAndNamesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan struct{})
		defer close(hung)
		q.Add("hangs")
		q.Add("ends")
		ended := make(chan []string, 1)
		go func() {
			ended <- q.Run(ctx, func(_ context.Context, key string) error {
				if key == "hangs" {
					<-hung
				}
				return nil
			})
		}()
		synctest.Wait()
		cancel()
		if left := <-ended; !slices.Equal(left, []string{"hangs"}) {
			t.Errorf("left behind are %q", left)
		}
	})
}

// Tries that hang cost only their own keys.
func TestHungTriesGiveTheirPlacesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			q.Add(strconv.Itoa(i))
		}
		ended, tried := make(chan []string, 1), make(chan struct{})
		go func() {
			ended <- q.Run(ctx, func(ctx context.Context, key string) error {
				if key == "well" {
					close(tried)
					return nil
				}
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		q.Add("well")
		begun := time.Now()
		<-tried
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("it was tried after %s", took)
		}
		cancel()
		if left := <-ended; len(left) > 0 {
			t.Errorf("left behind are %q", left)
		}
	})
}
