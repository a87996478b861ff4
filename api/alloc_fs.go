package api

import "time"

// AllocFileInfo describes one file or folder inside an allocation's directory.
type AllocFileInfo struct {
	Name        string    `msg:",omitempty"`
	IsDir       bool      `msg:",omitempty"`
	Size        int64     `msg:",omitempty"`
	FileMode    string    `msg:",omitempty"`
	ModTime     time.Time `msg:",omitempty"`
	ContentType string    `msg:",omitempty"`
}
