package ledger

// Ends is the version of the log of that name, see package fsm, which is no lower layer.
const Ends uint64 = 2

// Keyring is the version of the log of that name.
const Keyring uint64 = 3
