package api

//msgp:limit arrays:1000000 maps:1000000

// PieceMax is the maximum number of bytes of a file, a log or a snapshot in one response. It is below the decoder's
// limit.
const PieceMax = 512 << 10

// SnapshotMax is the maximum size in bytes of a snapshot to restore.
const SnapshotMax = 8 << 30
