package cputimetest_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cputimetest"
)

func TestWorkTakesProcessorTime(t *testing.T) {
	before := cputimetest.Process()
	for end := time.Now().Add(30 * time.Second); cputimetest.Process() < before+20*time.Millisecond; {
		if time.Now().After(end) {
			t.Fatal("a loop of 30 s took less than 20 ms of processor time")
		}
	}
}
