package artifacts

import "os"

const cacheMax = 2 << 30

type cache struct {
	dir string
	max int64
}

func cacheKey(namespace string, a Artifact) string { return "" }
func (c cache) open(key string) *os.File           { return nil }
func (c cache) remove(key string)                  {}
func (c cache) add(key, dir string, a Artifact)    {}
