package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var secretName = regexp.MustCompile(`(?i)secret|token|passw|key|jwt|cred|private|pem|identit|introduction|nonce|assertion|unlock|wrapped|lockid`)

// publicFields have the name of a secret and are none, with the reason. "*." stands for all types.
var publicFields = map[string]string{
	"*.NextToken": "a place in a list", "*.IdempotencyToken": "chosen by users to name a request",
	"*.KeyID": "names a key", "*.PemKeyFile": "a path", "*.PemCertFile": "a path", "*.KeyFile": "a path", "*.PemCert": "a certificate",
	"ACLAuthMethod.TokenLocality": "a scope", "ACLAuthMethod.TokenNameFormat": "a format of names",
	"ACLAuthMethodConfig.JWTValidationPubKeys": "public keys", "ACLAuthMethodConfig.DiscoveryCaPem": "certificates",
	"OIDCClientAssertion.KeySource": "a kind", "OIDCClientAssertion.KeyAlgorithm": "an algorithm", "OIDCClientAssertionKey.KeyIDHeader": "the name of a header",
	"ControllerListRequest.Token": "a place in a list", "ControllerSnapshotListRequest.Token": "a place in a list",
	"EvalDequeueResponse.Token": "counts deliveries", "EvalAckRequest.Token": "counts deliveries", "EvalUpdateRequest.Token": "counts deliveries", "Plan.EvalToken": "counts deliveries",
	"Event.Key": "the id of an object", "Event.FilterKeys": "ids of objects", "IdentityName.Identity": "the name of a block", "OIDCDiscovery.IDTokenAlgs": "algorithms", "*.IdentitySigningKeyID": "names a key",
	"Job.DispatchIdempotencyToken": "chosen by users to name a request", "Job.NomadTokenID": "the accessor of a token", "Dispatch.Token": "chosen by users to name a request",
	"SnapshotReadRequest.Token": "names a transfer between servers", "SnapshotReadResponse.Token": "names a transfer between servers",
	"SnapshotRestoreRequest.Token": "names a transfer between servers", "SnapshotRestoreResponse.Token": "names a transfer between servers",
	"VolumeSpec.SecretsFrom": "the path of a variable",
}

// TestEverySecretFieldIsListed reads the types that are stored, sent or shown: those of api, and all with a codec.
func TestEverySecretFieldIsListed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		for _, name := range p.files {
			if strings.Contains(filepath.Base(name), "zz_") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					secretFields(t, p.path, spec, used)
				}
				return true
			})
		}
	}
	for name := range maps.Keys(publicFields) {
		if !used[name] {
			t.Errorf("no field needs the entry %s in the list of public fields: remove it", name)
		}
	}
}

func secretFields(t *testing.T, path string, spec *ast.TypeSpec, used map[string]bool) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok || path != "api" && !slices.ContainsFunc(body.Fields.List, func(f *ast.Field) bool { return tagOf(f, "msg") != "" }) {
		return
	}
	for _, f := range body.Fields.List {
		for _, name := range f.Names {
			if !secretName.MatchString(name.Name) || !holdsText(f.Type) || tagOf(f, "secret") != "" {
				continue
			}
			if all := "*." + name.Name; publicFields[all] != "" {
				used[all] = true
			} else if one := spec.Name.Name + "." + name.Name; publicFields[one] != "" {
				used[one] = true
			} else {
				t.Errorf("%s: %s has the name of a secret: give it the tag secret, or list it as public in this test", path, one)
			}
		}
	}
}

func tagOf(f *ast.Field, key string) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get(key)
}

// holdsText reports whether a type is made of texts or bytes, or of values of any type.
func holdsText(e ast.Expr) bool {
	return regexp.MustCompile(`\b(string|byte|any|RawMessage)\b`).MatchString(types.ExprString(e))
}
