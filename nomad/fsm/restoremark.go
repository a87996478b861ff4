package fsm

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// RestoreMark records that a restore begins or has ended. A leader that finds a begun restore gives its own state to all servers.
type RestoreMark struct {
	Begin bool
}

// Kind implements [Command].
func (*RestoreMark) Kind() Kind { return KindRestoreMark }

// Apply stores the mark.
func (c *RestoreMark) Apply(tx *state.Txn) (any, error) {
	tx.PutRestoring(c.Begin)
	return nil, nil
}

// MarshalMsg implements [msgp.Marshaler].
func (c *RestoreMark) MarshalMsg(b []byte) ([]byte, error) {
	return msgp.AppendBool(msgp.AppendString(msgp.AppendMapHeader(b, 1), "Begin"), c.Begin), nil
}

// UnmarshalMsg implements [msgp.Unmarshaler]; fields of later versions are skipped.
func (c *RestoreMark) UnmarshalMsg(b []byte) (rest []byte, err error) {
	fields, b, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			break
		}
		if name == "Begin" {
			c.Begin, b, err = msgp.ReadBoolBytes(b)
		} else {
			b, err = msgp.Skip(b)
		}
	}
	return b, err
}
