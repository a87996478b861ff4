# Writes a line to its volume ten times a second.
job "demo-writer" {
  group "writers" {
    volume "data" {
      type            = "csi"
      source          = "demo"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "writer" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo writing; : demo-writer-loop; while :; do date '+%T greeting from '$NOMAD_ALLOC_ID >> data/greeting.txt; sleep 0.1; done"]
      }

      volume_mount {
        volume      = "data"
        destination = "data"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
