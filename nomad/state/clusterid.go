package state

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
)

// clusterRow names the cluster that the log belongs to, and the version of the log that all
// of its servers have agreed on.
type clusterRow struct {
	ID       string
	Version  uint64
	Rollback *api.Rollback
	// Restoring is set while an older state takes the place of the present one, in both of them.
	Restoring bool
}

func (t *Txn) cluster() clusterRow {
	if c := clusters.get(t, "cluster"); c != nil {
		return *c
	}
	return clusterRow{}
}

// ClusterID is the name of the cluster; empty before its first leader named it.
func (t *Txn) ClusterID() string { return t.cluster().ID }

// PutClusterID names the cluster.
func (t *Txn) PutClusterID(id string) {
	c := t.cluster()
	c.ID = id
	clusters.put(t, &c)
}

// AgreedVersion is the version of the log that all servers understand; at least 1.
func (t *Txn) AgreedVersion() uint64 { return max(1, t.cluster().Version) }

// PutAgreedVersion stores the version that all servers understand.
func (t *Txn) PutAgreedVersion(v uint64) {
	c := t.cluster()
	c.Version = v
	clusters.put(t, &c)
}

// Rollback is what is not known since an older state was restored; nil when all is. It is not to be changed.
func (t *Txn) Rollback() *api.Rollback { return t.cluster().Rollback }

// PutRollback stores what is not known since an older state was restored; nil when all is.
func (t *Txn) PutRollback(r *api.Rollback) {
	c := t.cluster()
	c.Rollback = r
	clusters.put(t, &c)
}

// Restoring reports whether a restore was begun and has not ended: servers may have the previous or the restored state.
func (t *Txn) Restoring() bool { return t.cluster().Restoring }

// PutRestoring stores whether a restore was begun and has not ended.
func (t *Txn) PutRestoring(begun bool) {
	c := t.cluster()
	c.Restoring = begun
	clusters.put(t, &c)
}

// MarshalMsg implements [msgp.Marshaler].
func (c *clusterRow) MarshalMsg(b []byte) ([]byte, error) {
	fields := uint32(2)
	if c.Rollback != nil {
		fields++
	}
	if c.Restoring {
		fields++
	}
	b = msgp.AppendMapHeader(b, fields)
	b = msgp.AppendString(msgp.AppendString(b, "ID"), c.ID)
	b = msgp.AppendUint64(msgp.AppendString(b, "Version"), c.Version)
	if c.Restoring {
		b = msgp.AppendBool(msgp.AppendString(b, "Restoring"), true)
	}
	if c.Rollback == nil {
		return b, nil
	}
	return c.Rollback.MarshalMsg(msgp.AppendString(b, "Rollback"))
}

// UnmarshalMsg implements [msgp.Unmarshaler]; fields of later versions are skipped.
func (c *clusterRow) UnmarshalMsg(b []byte) (rest []byte, err error) {
	fields, b, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			break
		}
		switch name {
		case "ID":
			c.ID, b, err = msgp.ReadStringBytes(b)
		case "Version":
			c.Version, b, err = msgp.ReadUint64Bytes(b)
		case "Restoring":
			c.Restoring, b, err = msgp.ReadBoolBytes(b)
		case "Rollback":
			c.Rollback = &api.Rollback{}
			b, err = c.Rollback.UnmarshalMsg(b)
		default:
			b, err = msgp.Skip(b)
		}
	}
	return b, err
}
