package reconciler

import (
	"errors"

	"github.com/open-nomad/open-nomad/api/fault"
)

// few is how often a call is repeated whose verdict allows a few tries, counted by verdict and code.
const few = 3

// failure is why an operation did not succeed.
type failure struct {
	err error
	// call is the plugin's reply; nil when no plugin replied.
	call *fault.Call
	// uncertain is set when the operation may have had its effect all the same.
	uncertain bool
	// lost is set when the call was sent and got no reply; hung when it reached its bound, cut when its connection was
	// lost.
	lost, hung, cut bool
}

// failed classifies an error. A plugin's reply defines itself whether it is uncertain; see [lostAnswer] for the rest.
func failed(err error) failure {
	f := failure{err: err, hung: errors.Is(err, fault.Timeout), cut: errors.Is(err, errGone)}
	errors.As(err, &f.call)
	var lost *lostAnswer
	f.lost = errors.As(err, &lost)
	f.uncertain = f.lost || f.call != nil && f.call.Uncertain
	return f
}

// lostAnswer marks the error of a call that was sent and whose reply is not known.
type lostAnswer struct{ err error }

func (l *lostAnswer) Error() string { return l.err.Error() }
func (l *lostAnswer) Unwrap() error { return l.err }

// sent marks the error of a call that left for its node, unless it is the plugin's reply or the node refused to call
// it.
func sent(err error) error {
	if errors.As(err, new(*fault.Call)) {
		return err
	}
	switch fault.Of(err) {
	case fault.Unavailable, fault.Timeout, fault.Internal:
		return &lostAnswer{err}
	}
	return err
}

// verdict is the plugin's; empty when no plugin answered: then the call is repeated.
func (f failure) verdict() fault.Verdict {
	if f.call == nil {
		return ""
	}
	return f.call.Verdict
}

// kind names the group of failures that are counted together.
func (f failure) kind() string {
	if f.call == nil {
		return fault.Of(f.err).String()
	}
	return string(f.call.Verdict) + " " + f.call.Code
}

// credentials reports whether the plugin refused the secrets.
func (f failure) credentials() bool { return f.call != nil && f.call.Credentials() }

// ends reports whether repeating an operation that makes something has no point any more.
func (f failure) ends(t try) bool {
	//exhaustive:enforce
	switch f.verdict() {
	case fault.VerdictFinal:
		return true
	case fault.VerdictUncertain, fault.VerdictLimit, fault.VerdictVerify:
		return t.alike >= few
	case fault.VerdictRetry, fault.VerdictRetrySoon, fault.VerdictChanged:
	}
	var ours *ourRefusal
	return f.unasked() || errors.As(f.err, &ours) || errors.Is(f.err, errNotOffered) || errors.Is(f.err, errNonsense)
}

// passes reports whether an attach or detach is repeated until it succeeds, however often it fails so.
func (f failure) passes() bool {
	//exhaustive:enforce
	switch f.verdict() {
	case fault.VerdictFinal, fault.VerdictUncertain, fault.VerdictLimit:
		return false
	case fault.VerdictRetry, fault.VerdictRetrySoon, fault.VerdictVerify, fault.VerdictChanged:
	}
	return true
}

// gaveUp reports whether the plugin will not do what it has begun, whatever secrets it is asked with.
func (f failure) gaveUp() bool { return f.verdict() == fault.VerdictFinal && !f.credentials() }

// unasked reports whether the node found that the request cannot be put to any plugin, such as a name with a
// control character.
func (f failure) unasked() bool { return f.call == nil && errors.Is(f.err, fault.Invalid) }

// answered reports whether the plugin replied to the request itself, rather than about its limits and the secrets.
func (f failure) answered() bool {
	if f.call == nil {
		return errors.Is(f.err, errNonsense)
	}
	return f.verdict() != fault.VerdictLimit && !f.credentials()
}

// ourRefusal marks an error that was found before a plugin was asked, and that ends the operation.
type ourRefusal struct{ err error }

func (o *ourRefusal) Error() string { return o.err.Error() }
func (o *ourRefusal) Unwrap() error { return o.err }

// errNonsense marks a reply of a plugin that cannot be used.
var errNonsense = errors.New("the driver's reply cannot be used")

// errNotOffered marks that all healthy controllers reported that they do not offer the call.
var errNotOffered = errors.New("not offered")
