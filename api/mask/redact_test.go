package mask_test

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/api/mask"
)

var secretPaths = regexp.MustCompile(`Secrets\[\]$|SecretID$|SecretHash$|PublishContext|MountFlags|ClientSecret$|PemKey$|Wrapped$|Data$|Lock\.ID$|Items|AuthToken$|\.JWT$`)

func checkRedacted[T any](t *testing.T) {
	full := apitest.Full(new(T))
	redacted := mask.Redacted(full)
	for _, f := range apitest.Fields(full) {
		was, is := f.Get(full), f.Get(redacted)
		if secret := secretPaths.MatchString(f.Path); secret && (is == nil || !reflect.ValueOf(is).IsZero()) && reflect.DeepEqual(is, was) {
			t.Errorf("%T: %s is in the copy", full, f.Path)
		} else if !secret && !reflect.DeepEqual(was, is) {
			t.Errorf("%T: %s is %v in the copy", full, f.Path, is)
		}
	}
	if !reflect.DeepEqual(full, apitest.Full(new(T))) {
		t.Errorf("%T was changed", full)
	}
}

func TestRedactedCopiesLackTheSecretsOnly(t *testing.T) {
	checkRedacted[api.Node](t)
	checkRedacted[api.Volume](t)
	checkRedacted[api.VolumeAttachment](t)
	checkRedacted[api.SnapshotIntent](t)
	checkRedacted[api.RootKey](t)
	checkRedacted[api.ACLToken](t)
	checkRedacted[api.OneTimeToken](t)
	checkRedacted[api.ACLAuthMethod](t)
	checkRedacted[api.VariableRow](t)
	checkRedacted[api.VariableApplyRequest](t)
	checkRedacted[api.AllocSignIdentitiesResponse](t)
	checkRedacted[api.NodeAssignmentsResponse](t)
	if c := mask.Redacted((*api.Node)(nil)); c != nil {
		t.Errorf("the copy of nil is %v", c)
	}
}

func TestCopiesOfMapsAndListsLackSecrets(t *testing.T) {
	type row struct {
		ByName map[string]*api.ACLToken
		Shared *api.NodePool
	}
	full := &row{ByName: map[string]*api.ACLToken{"a": {SecretID: "x", Name: "n"}, "b": nil}, Shared: &api.NodePool{}}
	c := mask.Redacted(full)
	if got := c.ByName["a"]; got.SecretID != "" || got.Name != "n" || full.ByName["a"].SecretID != "x" || c.ByName["b"] != nil {
		t.Errorf("the copy is %+v", got)
	}
	if c.Shared != full.Shared {
		t.Error("a part without secrets was copied")
	}
}

func BenchmarkRedactedNode(b *testing.B) {
	n := apitest.Full(&api.Node{})
	for b.Loop() {
		mask.Redacted(n)
	}
}
