package api

// DiskDataRequest asks for a page of the data of an ephemeral disk, for an allocation that replaces the one which has the data,
// by the node of the replacement.
type DiskDataRequest struct {
	NodeID     string `msg:",omitempty"`
	NodeSecret string `msg:",omitempty" secret:"true"`
	// AllocID is the allocation that gets the data, From the one that has it.
	AllocID string `msg:",omitempty"`
	From    string `msg:",omitempty"`
	// Tasks are the tasks whose local directories are wanted, in addition to alloc/data.
	Tasks  []string `msg:",omitempty"`
	Cursor DiskCursor
	QueryOptions
}

// DiskCursor is where a page begins; the zero value is the first page.
type DiskCursor struct {
	// Path is that of the last entry before the page. Paths are bytes, not text.
	Path []byte `msg:",omitempty,limit=8192"`
	// Offset is where in the file of that path the page begins, in bytes; 0 begins after the entry.
	Offset int64 `msg:",omitempty"`
}

// DiskDataResponse is a page of the data of an ephemeral disk. Directories come before what is in them.
type DiskDataResponse struct {
	Entries []*DiskEntry `msg:",omitempty"`
	// Cursor is that of the next page; it counts unless End is set.
	Cursor DiskCursor
	End    bool `msg:",omitempty"`
	// Omitted is the number of entries that are not copied: devices, pipes, sockets, mount points, links that lead outside.
	Omitted int `msg:",omitempty"`
	// Earlier is set on the last page when the allocation ended before it got the data of its own predecessor: its id.
	Earlier string `msg:",omitempty"`
}

// DiskEntry is a directory, a symbolic link, or a piece of a regular file.
type DiskEntry struct {
	// Path is relative to the directory of the allocation.
	Path []byte `msg:",omitempty,limit=8192"`
	// Mode has the type and the permissions as in st_mode.
	Mode uint32 `msg:",omitempty"`
	UID  uint32 `msg:",omitempty"`
	GID  uint32 `msg:",omitempty"`
	// ModTime is in nanoseconds since 1970.
	ModTime int64 `msg:",omitempty"`
	// Size is that of the whole file in bytes, holes included.
	Size int64 `msg:",omitempty"`
	// Inode is set for a file with several names: it is the same for all of them.
	Inode uint64 `msg:",omitempty"`
	// Target is where a symbolic link leads.
	Target []byte `msg:",omitempty,limit=8192"`
	// Data are at most [PieceMax] bytes of the file from Offset on. Bytes of no piece are zero.
	Offset int64  `msg:",omitempty"`
	Data   []byte `msg:",omitempty"`
}

// NodeCredentials implements [ByNode].
func (r *DiskDataRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }
