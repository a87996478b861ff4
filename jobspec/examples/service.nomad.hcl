# A service: it runs until it is stopped, and is started again when it fails.
#
#   nomad job run service.nomad.hcl
#   nomad job status example
#   nomad service info hello
#   nomad job stop example
job "example" {
  group "app" {
    # The service is removed this long before its tasks end, so that others have noticed by then.
    shutdown_delay = "2s"

    network {
      port "http" {}
    }

    # Others find the address and the port by this name. A program that listens gets a check:
    #   check {
    #     type     = "http"
    #     path     = "/health"
    #     interval = "10s"
    #     timeout  = "2s"
    #   }
    service {
      provider = "nomad"
      name     = "hello"
      port     = "http"
      tags     = ["example"]
    }

    task "hello" {
      # raw_exec runs a program of the host, without isolation.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"hello from $NOMAD_ALLOC_ID, port $NOMAD_PORT_http\"; sleep 5; done"]
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
