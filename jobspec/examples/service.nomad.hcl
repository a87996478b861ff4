# A service: it runs until it is stopped, and is started again when it fails.
#
#   nomad job run service.nomad.hcl
#   nomad job status example
#   nomad job stop example
job "example" {
  group "app" {
    task "hello" {
      # raw_exec runs a program of the host, without isolation.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"hello from $NOMAD_ALLOC_ID\"; sleep 5; done"]
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
