"""Commands that go into pods, wherever these run: exec, cp, top."""
