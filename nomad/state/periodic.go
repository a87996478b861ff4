package state

import (
	"time"

	"github.com/tinylib/msgp/msgp"
)

// launch is when a periodic job was last launched.
type launch struct {
	Namespace, JobID string
	At               time.Time
}

// LastLaunch is when the periodic job was last launched, or skipped because an instance of it still ran;
// zero when never.
func (t *Txn) LastLaunch(ns, job string) time.Time {
	if l := launches.get(t, rowKey(ns, job)); l != nil {
		return l.At
	}
	return time.Time{}
}

// PutLaunch stores when the periodic job was last launched.
func (t *Txn) PutLaunch(ns, job string, at time.Time) {
	launches.put(t, &launch{ns, job, at.UTC()})
}

// MarshalMsg implements [msgp.Marshaler].
func (l *launch) MarshalMsg(b []byte) ([]byte, error) {
	b = msgp.AppendMapHeader(b, 3)
	b = msgp.AppendString(msgp.AppendString(b, "Namespace"), l.Namespace)
	b = msgp.AppendString(msgp.AppendString(b, "JobID"), l.JobID)
	return msgp.AppendTime(msgp.AppendString(b, "At"), l.At), nil
}

// UnmarshalMsg implements [msgp.Unmarshaler]; fields of later versions are skipped.
func (l *launch) UnmarshalMsg(b []byte) (rest []byte, err error) {
	fields, b, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			break
		}
		switch name {
		case "Namespace":
			l.Namespace, b, err = msgp.ReadStringBytes(b)
		case "JobID":
			l.JobID, b, err = msgp.ReadStringBytes(b)
		case "At":
			l.At, b, err = msgp.ReadTimeUTCBytes(b)
		default:
			b, err = msgp.Skip(b)
		}
	}
	return b, err
}
