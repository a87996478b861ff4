package csi

import (
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api/fault"
)

// kind is what a call does; the same code means different things to different kinds.
type kind uint8

const (
	kindLearn    kind = iota // asks what the plugin is and can do, and whether it lives
	kindRead                 // asks for one object
	kindList                 // reads one page
	kindCreate               // creates a volume
	kindSnapshot             // creates a snapshot
	kindDelete               // deletes a volume or snapshot
	kindAttach               // attaches to a node
	kindDetach               // detaches from a node
	kindUse                  // stages or publishes
	kindUndo                 // unpublishes or unstages
	kindGrow                 // expands at the provider
	kindNodeGrow             // expands on a node
)

// changes reports whether calls of the kind have an effect.
func (k kind) changes() bool { return k >= kindCreate }

var kinds = map[string]kind{
	"Probe":                     kindLearn,
	"GetPluginInfo":             kindLearn,
	"GetPluginCapabilities":     kindLearn,
	"ControllerGetCapabilities": kindLearn,
	"NodeGetCapabilities":       kindLearn,
	"NodeGetInfo":               kindLearn,

	"ValidateVolumeCapabilities": kindRead,
	"GetCapacity":                kindRead,
	"ControllerGetVolume":        kindRead,
	"GetSnapshot":                kindRead,
	"ListVolumes":                kindList,
	"ListSnapshots":              kindList,

	"CreateVolume":              kindCreate,
	"CreateSnapshot":            kindSnapshot,
	"DeleteVolume":              kindDelete,
	"DeleteSnapshot":            kindDelete,
	"ControllerPublishVolume":   kindAttach,
	"ControllerUnpublishVolume": kindDetach,
	"ControllerExpandVolume":    kindGrow,
	"NodeStageVolume":           kindUse,
	"NodePublishVolume":         kindUse,
	"NodeUnpublishVolume":       kindUndo,
	"NodeUnstageVolume":         kindUndo,
	"NodeExpandVolume":          kindNodeGrow,
}

// kindOf takes calls that the table does not know for ones that change something.
func kindOf(rpc string) kind {
	if k, ok := kinds[rpc]; ok {
		return k
	}
	return kindUse
}

// done is the verdict of a code that means success.
const done fault.Verdict = ""

// rule is what a code means: the class that callers outside see, the verdict, exceptions by kind, and
// whether a call that changes something may have done so.
type rule struct {
	class     fault.Class
	verdict   fault.Verdict
	uncertain bool
	except    map[kind]fault.Verdict
}

type by = map[kind]fault.Verdict

// rules is the one table for the codes of all calls, after the errors of each call in the CSI
// specification 1.13. Codes that are missing behave like Unknown.
//
// Calls that remove a volume from a node must be repeated until they succeed, whatever the plugin returns.
var rules = map[codes.Code]rule{
	codes.Canceled:         {class: fault.Unavailable, verdict: fault.VerdictRetry, uncertain: true},
	codes.DeadlineExceeded: {class: fault.Timeout, verdict: fault.VerdictRetry, uncertain: true},
	codes.Unavailable:      {class: fault.Unavailable, verdict: fault.VerdictRetry, uncertain: true},
	// Aborted: another call for the object, maybe an earlier try of this one, has not ended. A list begins
	// again: its token is not valid.
	codes.Aborted: {
		class: fault.Unavailable, verdict: fault.VerdictRetry, uncertain: true,
		except: by{kindList: fault.VerdictFinal},
	},
	codes.Unknown: {
		class: fault.Internal, verdict: fault.VerdictUncertain, uncertain: true,
		except: by{kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.Internal: {
		class: fault.Internal, verdict: fault.VerdictUncertain, uncertain: true,
		except: by{kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.DataLoss: {
		class: fault.Internal, verdict: fault.VerdictFinal, uncertain: true,
		except: by{kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.InvalidArgument: {
		class: fault.Invalid, verdict: fault.VerdictFinal,
		except: by{kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.OutOfRange: {
		class: fault.Invalid, verdict: fault.VerdictFinal,
		except: by{kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.AlreadyExists: {
		class: fault.Conflict, verdict: fault.VerdictFinal,
		except: by{kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	// NotFound of a detach: the volume is not assumed to be detached. On a node the mount table decides.
	codes.NotFound: {
		class: fault.NotFound, verdict: fault.VerdictFinal,
		except: by{
			kindAttach: fault.VerdictUncertain, kindUse: fault.VerdictUncertain,
			kindDelete: done, kindDetach: fault.VerdictVerify, kindUndo: fault.VerdictVerify,
		},
	},
	// FailedPrecondition: attached elsewhere or in use, which passes. What a node must not repeat is final.
	codes.FailedPrecondition: {
		class: fault.Conflict, verdict: fault.VerdictFinal,
		except: by{
			kindLearn: fault.VerdictRetry, kindAttach: fault.VerdictRetry, kindGrow: fault.VerdictUncertain,
			kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry,
		},
	},
	codes.ResourceExhausted: {
		class: fault.Exhausted, verdict: fault.VerdictLimit,
		except: by{
			kindLearn: fault.VerdictRetry, kindSnapshot: fault.VerdictFinal,
			kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry,
		},
	},
	codes.PermissionDenied: {
		class: fault.Denied, verdict: fault.VerdictFinal,
		except: by{kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.Unauthenticated: {
		class: fault.Denied, verdict: fault.VerdictFinal,
		except: by{kindDelete: fault.VerdictRetry, kindDetach: fault.VerdictRetry, kindUndo: fault.VerdictRetry},
	},
	codes.Unimplemented: {class: fault.Unimplemented, verdict: fault.VerdictChanged},
}

func ruleOf(code codes.Code) rule {
	if r, ok := rules[code]; ok {
		return r
	}
	return rules[codes.Unknown]
}

func (r rule) of(k kind) fault.Verdict {
	if v, ok := r.except[k]; ok {
		return v
	}
	return r.verdict
}

// Explain is the error for a code that a plugin answered to a call, a *[fault.Call]; nil for codes that mean
// success, such as NotFound of DeleteVolume.
func Explain(rpc string, code codes.Code, text string) error {
	if c := explained(rpc, code, text); c != nil {
		return c
	}
	return nil
}

func explained(rpc string, code codes.Code, text string) *fault.Call {
	k, r := kindOf(rpc), ruleOf(code)
	v := r.of(k)
	if code == codes.OK || v == done {
		return nil
	}
	return &fault.Call{
		RPC: rpc, Code: code.String(), Text: text, Verdict: v,
		Uncertain: r.uncertain && k.changes(), Class: r.class,
	}
}
