package variables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

const (
	// releaseTimeout bounds the release of a lock; without a release it expires.
	releaseTimeout = 10 * time.Second
	// standardBackoff is the time between two attempts to take a lock, or to renew it after an error.
	standardBackoff = time.Second
	// requestMax bounds one attempt to take a lock.
	requestMax = 30 * time.Second
)

// Lock is "nomad var lock".
func Lock(name string) *cli.Command {
	c := session.Verb{
		Name: name, Usage: "run a command while a variable is locked", Args: "<path | @file | -> <command> [<argument>]...", Min: 2, Max: -1,
		Description: "Waits for the lock, runs the command, renews the lock at half of its TTL and releases it at the end. When the lock\n" +
			"is lost the command gets SIGTERM, and SIGKILL when the delay of the lock has passed. Signals are passed on. The exit\n" +
			"code is that of the command; 1 without the lock. Flags stand before the path.\n\n" +
			"  nomad var lock -ttl 30s app/lock ./migrate.sh",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "ttl", Usage: "`duration` after which a lock that is not renewed expires; the server's default is 15s"},
			&cli.StringFlag{Name: "delay", Usage: "`duration` for which nothing can take an expired lock; the server's default is 15s"},
			&cli.IntFlag{Name: "max-retry", Value: 5, Usage: "`number` of further attempts after an error of the servers"},
			&cli.DurationFlag{Name: "backoff", Value: standardBackoff, Usage: "`duration` between two attempts"},
			&cli.BoolFlag{Name: "early-return", Usage: "fail if the variable is locked, instead of waiting"},
			&cli.BoolFlag{Name: "shell", Value: true, Usage: "run the command by $SHELL -c, or /bin/sh"},
			&cli.StringFlag{Name: "out", Usage: "`format` in which the locked variable is printed: none, table, hcl, json", Hidden: true},
			&cli.StringFlag{Name: "template", Hidden: true},
			session.Verbose(),
		},
		Run: lock,
	}.Command()
	first := 1
	c.StopOnNthArg = &first // flags after it are those of the command
	return c
}

// lease is a lock and its times.
type lease struct {
	s          *session.Session
	v          *api.Variable
	ttl, delay time.Duration
	backoff    time.Duration
	retries    int
	// taken is when the request was sent that took or renewed the lock last: the server counts the TTL from a later moment.
	taken time.Time
}

func lock(ctx context.Context, s *session.Session) error {
	out, err := format(s, "none", "table", "hcl", "json", "go-template")
	if err != nil {
		return err
	}
	v, _, err := (&reader{s: s}).variable(s.Args[:1], false)
	if err != nil {
		return err
	}
	child := s.Args[1:]
	if len(child) > 0 && child[0] == "--" {
		child = child[1:]
	}
	if len(child) == 0 {
		return fault.New(fault.Invalid, "there is no command to run under the lock")
	}
	l := &lease{s: s, v: v, backoff: s.Duration("backoff"), retries: s.Int("max-retry")}
	if l.backoff <= 0 || l.retries < 0 {
		return fault.New(fault.Invalid, "-backoff %s and -max-retry %d: a positive duration and a number of at least 0 are needed", l.backoff, l.retries)
	}
	if err := l.durations(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := l.acquire(ctx, signals); err != nil {
		return session.Failed("locking variable", err)
	}
	defer l.release(ctx)
	if s.Verbose {
		s.Warnf("Locked variable %q for %s", l.v.Path, l.ttl)
	}
	if err := show(s, l.v, out); err != nil {
		return err
	}
	return l.run(ctx, signals, child)
}

// durations checks those of the flags, which replace those of the file.
func (l *lease) durations() error {
	if l.v.Lock == nil {
		l.v.Lock = &api.VariableLock{}
	}
	l.v.Lock.ID = ""
	for flag, to := range map[string]*string{"ttl": &l.v.Lock.TTL, "delay": &l.v.Lock.LockDelay} {
		if l.s.IsSet(flag) {
			*to = l.s.String(flag)
		}
		if *to == "" {
			continue
		}
		if d, err := time.ParseDuration(*to); err != nil || d < 0 {
			return fault.New(fault.Invalid, "-%s %q is not a duration such as 15s", flag, *to)
		}
	}
	return nil
}

// acquire takes the lock. It waits for as long as another has it, until a signal or the context ends the wait.
func (l *lease) acquire(ctx context.Context, signals <-chan os.Signal) error {
	for failures := 0; ; {
		taken := time.Now()
		v, err := l.try(ctx)
		var held *rest.VariableConflict
		switch {
		case err == nil:
			return l.hold(ctx, v, taken)
		case errors.As(err, &held):
			failures = 0
			if l.s.Bool("early-return") {
				return fmt.Errorf("%w: the variable is locked", err)
			}
			if l.s.Verbose {
				l.s.Warnf("Waiting for the lock of variable %q", l.v.Path)
			}
		case !passing(err) || failures >= l.retries:
			return err
		default:
			failures++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-signals:
			return fmt.Errorf("ended by signal %s before the variable was locked", sig)
		case <-time.After(l.backoff):
		}
	}
}

func (l *lease) try(ctx context.Context) (*api.Variable, error) {
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	return l.s.LockVariable(ctx, l.v)
}

// hold reads the times of a lock that was taken. A lock whose times are unknown is released.
func (l *lease) hold(ctx context.Context, v *api.Variable, taken time.Time) error {
	if v.Lock == nil || v.Lock.ID == "" {
		return fault.New(fault.Internal, "the response has no lock")
	}
	ttl, err := time.ParseDuration(v.Lock.TTL)
	delay, delayErr := time.ParseDuration(v.Lock.LockDelay)
	l.taken, l.ttl, l.delay, l.v = taken, ttl, delay, v
	if err != nil || delayErr != nil || ttl <= 0 || delay < 0 {
		l.release(ctx)
		return fault.New(fault.Internal, "the response has a lock with TTL %q and delay %q", v.Lock.TTL, v.Lock.LockDelay)
	}
	return nil
}

// held is the variable as renewals and releases send it: without items.
func (l *lease) held() *api.Variable {
	return &api.Variable{VariableMeta: api.VariableMeta{Namespace: l.v.Namespace, Path: l.v.Path, Lock: &api.VariableLock{ID: l.v.Lock.ID}}}
}

// passing reports whether a later attempt may succeed after an error.
func passing(err error) bool {
	return errors.Is(err, fault.Internal) || errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout) || errors.Is(err, fault.Exhausted) ||
		errors.Is(err, context.DeadlineExceeded)
}

// keep renews the lock at half of its TTL. It returns why the lock is lost, or nil once the context has ended.
func (l *lease) keep(ctx context.Context) error {
	for {
		expires := l.taken.Add(l.ttl)
		next := l.taken.Add(l.ttl / 2)
		for failures := 0; ; failures++ {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(next)):
			}
			sent := time.Now()
			err := l.renew(ctx, expires)
			if err == nil {
				l.taken = sent
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			if !passing(err) || failures >= l.retries || !time.Now().Add(l.backoff).Before(expires) {
				return err
			}
			next = time.Now().Add(l.backoff)
		}
	}
}

// renew is one attempt. It ends when the lock expires, or earlier to leave time for another attempt.
func (l *lease) renew(ctx context.Context, expires time.Time) error {
	limit := min(time.Until(expires), max(l.ttl/4, time.Second))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return l.s.RenewVariableLock(ctx, l.held())
}

func (l *lease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := l.s.ReleaseVariableLock(ctx, l.held())
	if lost := new(rest.VariableConflict); err != nil && !errors.As(err, &lost) {
		l.s.Warnf("The lock of variable %q is not released, it expires within %s: %s", l.v.Path, l.ttl, err)
	}
}
