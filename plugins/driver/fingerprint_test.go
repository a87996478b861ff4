package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

func TestFingerprintsComeAtOnceAndInEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		ch := driver.Fingerprints(ctx, func(context.Context) driver.Fingerprint {
			looks++
			return driver.Fingerprint{Health: driver.Healthy}
		})
		began := time.Now()
		for i := range 3 {
			if f := <-ch; f.Health != driver.Healthy || time.Since(began) != time.Duration(i)*driver.FingerprintPeriod {
				t.Errorf("value %d after %v: %+v", i, time.Since(began), f)
			}
		}
		cancel()
		if _, open := <-ch; open || looks != 3 {
			t.Errorf("the channel is open after its end: %v, %d looks", open, looks)
		}
	})
}
