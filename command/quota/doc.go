// Package quota has the verbs of "nomad quota".
package quota
