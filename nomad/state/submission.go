package state

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
)

// MarshalMsg implements msgp.Marshaler.
func (s *submission) MarshalMsg(b []byte) ([]byte, error) {
	b = msgp.AppendString(b, s.Namespace)
	b = msgp.AppendString(b, s.JobID)
	b = msgp.AppendUint64(b, s.Version)
	if s.Source == nil {
		return msgp.AppendNil(b), nil
	}
	return s.Source.MarshalMsg(b)
}

// UnmarshalMsg implements msgp.Unmarshaler.
func (s *submission) UnmarshalMsg(b []byte) ([]byte, error) {
	var err error
	if s.Namespace, b, err = msgp.ReadStringBytes(b); err != nil {
		return b, err
	}
	if s.JobID, b, err = msgp.ReadStringBytes(b); err != nil {
		return b, err
	}
	if s.Version, b, err = msgp.ReadUint64Bytes(b); err != nil {
		return b, err
	}
	if msgp.IsNil(b) {
		return msgp.ReadNilBytes(b)
	}
	s.Source = &api.JobSubmission{}
	return s.Source.UnmarshalMsg(b)
}
