"""Client sessions: frames in, calls on the engine, frames out."""
