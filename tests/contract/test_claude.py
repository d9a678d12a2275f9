"""What only Claude Code does: a subscription's limit with its reset, and an end by our signal."""

import time
from collections.abc import Callable

from contract.reals import Crew
from nightcrew.core.work import Class
from support.crew import until
from support.models.scenario import Fault, Say, steps


def test_a_spent_plan_tells_its_reset(crew: Callable[..., Crew]) -> None:
    """A subscription's refused limit is a quota with the window and the moment it comes back; the turn can be continued."""
    real = crew("claude", Fault("quota", reset_in_s=7200))
    env = {name: value for name, value in real.env.items() if name != "ANTHROPIC_API_KEY"}
    real = real._replace(env={**env, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"})
    before = time.time()
    judged = real.play("begin", session=real.minted())
    assert (judged.kind, judged.window) == (Class.Quota, "five_hour"), judged
    assert judged.reset_at is not None
    assert before + 7190 <= judged.reset_at <= time.time() + 7200
    real.server.scenario = steps(Say("pong"))
    assert real.play("again", resume=real.minted()).kind is Class.Ok


def test_a_stop_in_the_middle_is_no_answer(crew: Callable[..., Crew]) -> None:
    """The first stop signal ends a turn that waits for its model; it is then no answer, and the turn can be continued."""
    real = crew("claude", Fault("stall"))
    turn = real.turn("begin", session=real.minted())
    with real.start(turn) as process:
        until(lambda: real.server.requests)
        process.terminate()
        assert real.judged(turn, process).kind is Class.Crashed
    real.server.scenario = steps(Say("pong"))
    assert real.play("again", resume=real.minted()).kind is Class.Ok
