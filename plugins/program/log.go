package program

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// A process may log so many bytes per second, and a burst of so many at once.
const (
	logRate  = 64 << 10
	logBurst = 1 << 20
)

// limitedLog is the log of one process. Lines beyond its limit are dropped and counted: to wait would hang the process.
type limitedLog struct {
	hclog.Logger
	noun    string
	bytes   *rate.Limiter
	dropped *atomic.Int64
}

func limited(log hclog.Logger, noun string) hclog.Logger {
	return &limitedLog{log, noun, rate.NewLimiter(logRate, logBurst), &atomic.Int64{}}
}

// Log implements [hclog.Logger], as the other methods do.
func (l *limitedLog) Log(level hclog.Level, text string, args ...any) {
	size := len(text)
	for _, a := range args {
		size += len(fmt.Sprint(a))
	}
	if !l.bytes.AllowN(time.Now(), min(size, logBurst)) {
		l.dropped.Add(1)
		return
	}
	if n := l.dropped.Swap(0); n > 0 {
		l.Logger.Warn("the process of the "+l.noun+" logs too much", "lines_dropped", n)
	}
	l.Logger.Log(level, text, args...)
}

func (l *limitedLog) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }
func (l *limitedLog) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }
func (l *limitedLog) Info(text string, args ...any)  { l.Log(hclog.Info, text, args...) }
func (l *limitedLog) Warn(text string, args ...any)  { l.Log(hclog.Warn, text, args...) }
func (l *limitedLog) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

func (l *limitedLog) With(args ...any) hclog.Logger {
	return &limitedLog{l.Logger.With(args...), l.noun, l.bytes, l.dropped}
}

func (l *limitedLog) Named(name string) hclog.Logger {
	return &limitedLog{l.Logger.Named(name), l.noun, l.bytes, l.dropped}
}

func (l *limitedLog) ResetNamed(name string) hclog.Logger {
	return &limitedLog{l.Logger.ResetNamed(name), l.noun, l.bytes, l.dropped}
}
