//! What rooda knows of the AI CLIs: where they come from, and which variables hold their keys.

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of its program, which is that of its alias too.
    pub program: &'static str,
    /// The npm package that has it. Two are not on npm: what has their name there is somebody else's.
    pub npm: Option<&'static str>,
    /// The variables that hold its keys.
    pub keys: &'static [&'static str],
}

pub const KNOWN: [Known; 7] = [
    Known {
        program: "claude",
        npm: Some("@anthropic-ai/claude-code"),
        keys: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
    },
    Known {
        program: "codex",
        npm: Some("@openai/codex"),
        keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
    },
    Known {
        program: "gemini",
        npm: Some("@google/gemini-cli"),
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    },
    Known {
        program: "opencode",
        npm: Some("opencode-ai"),
        keys: &[
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENCODE_API_KEY",
            "OPENROUTER_API_KEY",
        ],
    },
    Known {
        program: "copilot",
        npm: Some("@github/copilot"),
        // Its key is a token for GitHub: only who names it in `agent-env` passes it.
        keys: &["COPILOT_PROVIDER_API_KEY"],
    },
    Known {
        program: "kiro-cli",
        npm: None,
        keys: &["KIRO_API_KEY"],
    },
    Known {
        program: "cursor-agent",
        npm: None,
        keys: &["CURSOR_API_KEY"],
    },
];

impl Known {
    /// The CLI that a program is, by its name or its path.
    pub fn of(program: &str) -> Option<&'static Known> {
        let name = program.rsplit('/').next().unwrap_or_default();
        KNOWN.iter().find(|known| known.program == name)
    }
}
