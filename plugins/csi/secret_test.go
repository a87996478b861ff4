package csi_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

const password = "p@ss/w0rd+of it"

func direct(t *testing.T, d *fake.Driver, log hclog.Logger) *csi.Client {
	t.Helper()
	cl, err := csi.New(csi.Config{Socket: "d", Log: log, Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface { return d.Conn(h) }})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func TestDriversTextTellsNoSecret(t *testing.T) {
	texts := map[string]string{
		"as it is": "login with " + password + " failed",
		"url":      "GET https://array/?p=" + url.QueryEscape(password),
		"base64":   "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(password)),
		"quoted":   fmt.Sprintf("secrets: %q", password),
		"lines":    "login failed:\n\tpassword: " + password + "\nbye",
	}
	secrets := map[string]string{"password": password}
	for name, text := range texts {
		d := fake.New(fake.Config{Attach: true})
		d.Storage().Add("v")
		cl := direct(t, d, nil)
		for rpc, call := range map[string]func() error{
			"ControllerUnpublishVolume": func() error {
				return cl.ControllerUnpublish(t.Context(), &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: "fake-node", Secrets: secrets})
			},
			"NodeUnstageVolume": func() error { return cl.NodeUnstage(t.Context(), "v", "/s") }, // carries none
		} {
			d.Heal()
			d.Script(fake.Fault{RPC: rpc, Code: codes.Internal, Text: text})
			if rpc == "NodeUnstageVolume" {
				v := volume("v")
				v.Secrets = secrets
				_ = cl.NodeStage(t.Context(), v)
			}
			err := call()
			var said *fault.Call
			if !errors.As(err, &said) || !strings.Contains(said.Text, "[secret]") {
				t.Errorf("%s, %s: %v", rpc, name, err)
				continue
			}
			for _, form := range []string{password, url.QueryEscape(password), base64.StdEncoding.EncodeToString([]byte(password))} {
				if strings.Contains(err.Error(), form) {
					t.Errorf("%s tells %s", rpc, err)
				}
			}
		}
	}
}

func TestSecretsOfMountFlagsAreNotTold(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	d.Script(fake.Fault{RPC: "NodeStageVolume", Code: codes.Internal, Text: "mount -t cifs: user u with hunter2 refused"})
	v := volume("v")
	v.MountOptions = &api.MountOptions{MountFlags: []string{"username=u,password=hunter2"}}
	if err := cl.NodeStage(t.Context(), v); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}

func TestRotatedSecretIsStillHidden(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	for _, secret := range []string{"first-secret", "second-secret"} {
		v := volume("v")
		v.Secrets = map[string]string{"key": secret}
		if err := cl.NodeStage(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	d.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "first-secret, then second-secret"})
	if err := cl.NodeUnstage(t.Context(), "v", "/s"); err == nil || !strings.Contains(err.Error(), "[secret], then [secret]") {
		t.Errorf("the error is %v", err)
	}
}

// A refusal comes in an answer, not in an error.
func TestRefusalOfAValidationTellsNoSecret(t *testing.T) {
	cl := serve(t, &plugin{validate: func() (*pb.ValidateVolumeCapabilitiesResponse, error) {
		return &pb.ValidateVolumeCapabilitiesResponse{Message: "no login with " + password}, nil
	}})
	_, err := cl.Validate(t.Context(), &api.ControllerValidateRequest{
		ExternalID: "v", Capabilities: creation("v").Capabilities, Secrets: map[string]string{"key": password},
	})
	if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "no login") {
		t.Errorf("the refusal is %v", err)
	}
}

func TestNonsenseIsNoValidation(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	for _, reply := range fake.Nonsense("ValidateVolumeCapabilities") {
		d.Heal()
		d.Script(fake.Fault{RPC: "ValidateVolumeCapabilities", Reply: reply})
		if _, err := cl.Validate(t.Context(), &api.ControllerValidateRequest{
			ExternalID: "v", Capabilities: creation("v").Capabilities, Secrets: map[string]string{"key": "no"},
		}); err == nil {
			t.Errorf("%v is a validation", reply)
		}
	}
}

func TestLogTellsNoSecret(t *testing.T) {
	var out bytes.Buffer
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := dialLogged(t, d, hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}))
	d.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Code: codes.Internal, Text: fake.Quote})
	v := volume("v")
	v.Secrets = map[string]string{"password": password}
	_ = cl.NodeStage(t.Context(), v)
	if err := cl.NodeStage(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "NodeStageVolume") || strings.Contains(got, "p@ss") {
		t.Errorf("the log is %s", got)
	}
}

func TestTextsArePlainAndBounded(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	said := func(text string) string {
		t.Helper()
		d.Heal()
		d.Script(fake.Fault{RPC: "NodeStageVolume", Code: codes.Internal, Text: text})
		v := volume("v")
		v.Secrets = map[string]string{"key": strings.Repeat("abcdefgh", 500)}
		var c *fault.Call
		if err := cl.NodeStage(t.Context(), v); !errors.As(err, &c) {
			t.Fatal(err)
		}
		return c.Text
	}
	if got := said("red \x1b[31m\x00\xff\nline two"); got != "red [31m\nline two" {
		t.Errorf("the text is %q", got)
	}
	if got := said(strings.Repeat("x", 1<<20)); len(got) > 5<<10 || !strings.HasSuffix(got, "...") {
		t.Errorf("a text of %d bytes", len(got))
	}
	for _, between := range []string{"\x90", "\x00", "\x1b"} {
		if got := said(strings.Repeat("abcd"+between+"efgh", 500)); got != "[secret]" {
			t.Errorf("a secret parted by %q is told as %.50q", between, got)
		}
	}
	// A secret that reaches over the end of what is read is found by nobody.
	for shift := range 9 {
		text := strings.Repeat("-", shift) + strings.Repeat(strings.Repeat("abcdefgh", 500), 40)
		if got := said(text); strings.Contains(got, "abcd") {
			t.Fatalf("a part of a secret is told: %.200q", got)
		}
	}
}

func TestKeysOfSecretsHaveTheirCharacters(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	for key, ok := range map[string]bool{"user.name-1_x": true, "with space": false, "": false, "schlüssel": false, "a/b": false} {
		v := volume("v")
		v.Secrets = map[string]string{key: "value"}
		err := cl.NodeStage(t.Context(), v)
		if (err == nil) != ok {
			t.Errorf("key %q: %v", key, err)
		}
		if err != nil && (!errors.Is(err, fault.Invalid) || key != "" && strings.Contains(err.Error(), key)) {
			t.Errorf("key %q: the error is %v", key, err)
		}
	}
	if n := len(d.Calls("NodeStageVolume")); n != 1 {
		t.Errorf("%d calls were sent", n)
	}
	// What was stored before the rule is detached all the same.
	bad := map[string]string{"with space": "value"}
	if err := cl.DeleteVolume(t.Context(), &api.ControllerDeleteRequest{ExternalID: "w", Secrets: bad}); err != nil {
		t.Errorf("delete: %v", err)
	}
}
