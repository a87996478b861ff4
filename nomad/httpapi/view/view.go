// Package view shows what endpoints of several nouns show in one way.
package view

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/open-nomad/open-nomad/api"
)

// Job is a job as clients read it: those of all types have an update block, which they look into.
func Job(j *api.Job) *api.Job {
	if j == nil || j.Update != nil {
		return j
	}
	v := *j
	v.Update = &api.UpdateStrategy{}
	return &v
}

// Hash changes whenever what is shown changes.
func Hash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(text)
	return base64.StdEncoding.EncodeToString(sum[:])
}
