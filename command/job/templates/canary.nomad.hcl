# A service whose new versions show themselves in one canary first.
#
#   nomad job run canary.nomad.hcl
#   (change something and run it again: one canary of the new version starts beside the old ones)
#   nomad job promote canary
#   nomad job revert canary 0
job "canary" {
  group "app" {
    count = 3

    update {
      canary           = 1     # new version beside the old one, until it is promoted
      max_parallel     = 1     # then one after the other is replaced
      min_healthy_time = "10s" # running that long makes an allocation healthy
      healthy_deadline = "2m"  # what is not healthy by then is unhealthy
      auto_revert      = true  # a failed deployment goes back to the last stable version
      auto_promote     = false # true promotes as soon as all canaries are healthy
    }

    task "hello" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo hello from version 1; sleep 5; done"]
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
