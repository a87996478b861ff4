# A template for work that comes with its own input. It runs when it is dispatched.
#
#   nomad job run parameterized.nomad.hcl
#   echo hello | nomad job dispatch -meta who=me greet -
job "greet" {
  type = "batch"

  parameterized {
    payload       = "optional"
    meta_required = ["who"]
    meta_optional = ["language"]
  }

  group "app" {
    task "greet" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo greetings to $NOMAD_META_who; cat local/input 2>/dev/null || true"]
      }

      # The payload is written to this file of the task.
      dispatch_payload {
        file = "input"
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
