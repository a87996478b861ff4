package api

//msgp:limit arrays:1000000 maps:1000000

// PieceMax is how many bytes of a file, a log or a snapshot go in one answer: less than a decoder allows.
const PieceMax = 512 << 10

// SnapshotMax is how many bytes a snapshot that is restored may have.
const SnapshotMax = 8 << 30
