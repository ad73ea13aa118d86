"""Definitions over HTTP: whole or not at all, as JSON or as a form, in steps."""

import json
from pathlib import Path

import pytest

from tests.server.http.api.administering import done, sent
from tests.server.http.asking import Pages, problem, serving

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


def test_what_was_exported_can_be_imported_elsewhere(pages: Pages) -> None:
    done(pages, "PUT", "/api/vhosts/other", {"description": "d"})
    done(pages, "PUT", "/api/users/anna", {"password": "p", "tags": "management"})
    done(pages, "PUT", "/api/permissions/other/anna", {"configure": "a", "write": "b", "read": "c"})
    done(pages, "PUT", "/api/exchanges/other/e", {"type": "topic", "durable": True})
    done(pages, "PUT", "/api/queues/other/q", {"durable": True})
    done(pages, "POST", "/api/bindings/other/e/e/q/q", {"routing_key": "k"})
    done(pages, "PUT", "/api/policies/other/p", {"pattern": "^q", "definition": {"expires": 9}})
    exported = pages.facts("/api/definitions")
    with serving() as broker:
        fresh = Pages(broker)
        done(fresh, "POST", "/api/definitions", exported)
        assert fresh.facts("/api/definitions") == exported
        assert Pages(broker, ("anna", "p")).facts("/api/whoami")["name"] == "anna"


def test_an_import_with_a_mistake_changes_nothing(pages: Pages) -> None:
    before = pages.facts("/api/definitions")
    bad = {**QUEUE, "name": "bad", "arguments": {"x-max-length": "many"}}
    body = {"vhosts": [{"name": "new"}], "queues": [QUEUE, bad]}
    refused = problem(sent(pages, "POST", "/api/definitions", body), 400)
    assert "nothing was changed" in str(refused["reason"])
    mistakes = refused["mistakes"]
    assert isinstance(mistakes, list) and "queues[1].arguments.x-max-length" in mistakes[0]
    assert pages.facts("/api/definitions") == before


def test_a_form_with_a_file_is_imported_as_browsers_send_it(pages: Pages) -> None:
    boundary = "----x"
    content = json.dumps({"queues": [QUEUE]})
    form = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n'
        f"Content-Type: application/json\r\n\r\n{content}\r\n--{boundary}--\r\n"
    ).encode()
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    assert pages.ask("POST", "/api/definitions", form, kind).status_code == 204
    assert pages.broker.queue_depths() == {"q": 0}
    nothing = form.replace(b'"file"', b'"other"')
    problem(pages.ask("POST", "/api/definitions", nothing, kind), 400)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_a_form_cannot_send_browsers_to_another_server(pages: Pages, target: str) -> None:
    form = (
        '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n{}\r\n'
        f'--x\r\nContent-Disposition: form-data; name="redirect"\r\n\r\n{target}\r\n--x--\r\n'
    ).encode()
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert pages.ask("POST", "/api/definitions", form, kind).status_code == 204


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"queues": [}', b'{"a": NaN}', b"[" * 5000])
def test_what_is_not_a_json_object_is_refused(pages: Pages, body: bytes) -> None:
    problem(pages.ask("POST", "/api/definitions", body), 400)


def test_an_import_is_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        done(Pages(broker), "POST", "/api/definitions", {"queues": [QUEUE]})
    with serving(tmp_path / "data") as broker:
        assert broker.queue_depths() == {"q": 0}


def test_definitions_of_one_vhost_go_into_another(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/q", {"durable": True})
    done(pages, "PUT", "/api/vhosts/other")
    done(pages, "POST", "/api/definitions/other", pages.facts("/api/definitions/%2F"))
    assert pages.broker.queue_depths("other") == {"q": 0}
    problem(sent(pages, "POST", "/api/definitions/missing", {}), 404)
    problem(pages.get("/api/definitions/missing"), 404)


def test_a_download_has_a_name_for_browsers(pages: Pages) -> None:
    response = pages.get("/api/definitions?download=my%22file.json")
    assert response.headers["content-disposition"] == 'attachment; filename="myfile.json"'
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("tags", ["", "management", "policymaker", "monitoring"])
def test_hashes_of_passwords_are_exported_to_administrators_only(pages: Pages, tags: str) -> None:
    pages.broker.add_user("u", "secret", tuple(tags.split()))
    pages.broker.set_permissions("u", "/")
    other = Pages(pages.broker, ("u", "secret"))
    for path in ("/api/definitions", "/api/users", "/api/users/guest"):
        refused = other.get(path)
        assert refused.status_code in {401, 403}, path
        assert "argon2" not in refused.text
    assert "argon2" in pages.get("/api/definitions").text


def test_a_form_of_nothing_but_boundaries_is_refused_at_once(pages: Pages) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    refused = pages.ask("POST", "/api/definitions", b"--x\r\n\r\n" * 1_000_000, kind)
    assert "more than 16 parts" in str(problem(refused, 400)["reason"])
    bare = {"Content-Type": "multipart/form-data"}
    refused = pages.ask("POST", "/api/definitions", b"--x\r\n\r\n", bare)
    assert "no boundary" in str(problem(refused, 400)["reason"])
