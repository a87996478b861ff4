package state

import "github.com/tinylib/msgp/msgp"

// clusterRow names the cluster that the log belongs to.
type clusterRow struct{ ID string }

// ClusterID names the cluster for ever; empty before its first leader has named it.
func (t *Txn) ClusterID() string {
	if c := clusters.get(t, "id", "cluster"); c != nil {
		return c.ID
	}
	return ""
}

// PutClusterID names the cluster.
func (t *Txn) PutClusterID(id string) {
	clusters.put(t, &clusterRow{id}, clusters.get(t, "id", "cluster"))
}

// MarshalMsg implements msgp.Marshaler.
func (c *clusterRow) MarshalMsg(b []byte) ([]byte, error) { return msgp.AppendString(b, c.ID), nil }

// UnmarshalMsg implements msgp.Unmarshaler.
func (c *clusterRow) UnmarshalMsg(b []byte) (rest []byte, err error) {
	c.ID, rest, err = msgp.ReadStringBytes(b)
	return rest, err
}
