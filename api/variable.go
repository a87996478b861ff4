package api

//msgp:ignore Variable

// VariableMeta is what lists show of a variable.
type VariableMeta struct {
	Namespace   string `msg:",omitempty"`
	Path        string `msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
	// CreateTime and ModifyTime are in Unix nanoseconds.
	CreateTime int64         `msg:",omitempty"`
	ModifyTime int64         `msg:",omitempty"`
	Lock       *VariableLock `json:",omitempty" msg:",omitempty"`
}

// VariableLock is a lock on a variable. Its holder renews it within the TTL.
type VariableLock struct {
	// ID is the secret of the holder; lists do not show it. The state has its SHA-256 in hex.
	ID string `json:",omitempty" msg:",omitempty" secret:"true"`
	// TTL and LockDelay are durations such as "15s". After an expired lock the variable cannot be locked for the delay.
	TTL       string `msg:",omitempty"`
	LockDelay string `msg:",omitempty"`
}

// Variable is a variable in clear.
type Variable struct {
	VariableMeta
	Items map[string]string `json:",omitempty" secret:"true"`
}

// VariableRow is a variable as it is stored.
type VariableRow struct {
	VariableMeta
	// KeyID is the root key with which Data, the JSON of the items, is encrypted.
	KeyID string `msg:",omitempty"`
	Data  []byte `msg:",omitempty" secret:"true"`
}

// VariableOp is a change of a variable.
type VariableOp string

// Changes of variables. The -cas forms compare the index of the last change first; 0 means that there must be none.
const (
	VariableSet       VariableOp = "set"
	VariableCAS       VariableOp = "cas"
	VariableDelete    VariableOp = "delete"
	VariableDeleteCAS VariableOp = "delete-cas"
	VariableAcquire   VariableOp = "lock-acquire"
	VariableRelease   VariableOp = "lock-release"
)

// VariableListResponse lists variables without their items.
type VariableListResponse struct {
	Variables []*VariableMeta `msg:",omitempty"`
	QueryMeta
}

// VariableRequest names a variable.
type VariableRequest struct {
	Path string `msg:",omitempty"`
	QueryOptions
}

// VariableResponse holds one variable in clear; nil when it does not exist.
type VariableResponse struct {
	Meta  *VariableMeta     `msg:",omitempty"`
	Items map[string]string `msg:",omitempty" secret:"true"`
	QueryMeta
}

// VariableApplyRequest changes a variable.
type VariableApplyRequest struct {
	Op    VariableOp        `msg:",omitempty"`
	Path  string            `msg:",omitempty"`
	Items map[string]string `msg:",omitempty" secret:"true"`
	Lock  *VariableLock     `msg:",omitempty"`
	// CheckIndex is compared by the -cas forms.
	CheckIndex uint64 `msg:",omitempty"`
	WriteRequest
}

// VariableApplyResponse holds the variable after the change. Conflict is set when nothing was changed, because the index or
// the lock differs; Items are then those of the stored variable, if the caller may read it.
type VariableApplyResponse struct {
	Conflict bool              `msg:",omitempty"`
	Meta     *VariableMeta     `msg:",omitempty"`
	Items    map[string]string `msg:",omitempty" secret:"true"`
	WriteMeta
}

// VariableRenewRequest renews a lock.
type VariableRenewRequest struct {
	Path   string `msg:",omitempty"`
	LockID string `msg:",omitempty" secret:"true"`
	WriteRequest
}

// VariableRenewResponse holds the variable whose lock was renewed.
type VariableRenewResponse struct {
	Meta *VariableMeta `msg:",omitempty"`
	WriteMeta
}
