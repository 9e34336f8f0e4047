"""What people do in Discord, and what other bots and webhooks do."""

from collections.abc import Sequence
from typing import Any

from simcord.backend import serializers
from simcord.backend.models import Channel, Guild, Role
from simcord.enums import AppCommandType, ChannelType, InteractionType
from simcord.interactions import base_payload
from tests.channels.discord.server import interactions
from tests.channels.discord.server.cdn import Cdn, File
from tests.channels.discord.server.rules import FILE_BYTES
from tests.channels.discord.server.world import Answer, Json, Post, World

SUPPRESS_NOTIFICATIONS = 1 << 12


class Person:
    """Somebody with the app, in the guild of the world unless a stranger; `bot` makes it another bot."""

    def __init__(
        self, world: World, cdn: Cdn, name: str = "ada", *, bot: bool = False, member: bool = True
    ) -> None:
        self.world = world
        self.cdn = cdn
        self.user = world.state.make_user(name, bot=bot, global_name=name.title())
        self.id = self.user.id
        self.mention = f"<@{self.id}>"
        if member:
            self.join(world.guild)

    @property
    def dm(self) -> Channel:
        """The direct messages with the bot."""
        return self.world.state.get_dm_channel(self.id)

    def join(self, guild: Guild, *roles: Role) -> None:
        ids = [role.id for role in roles]
        self.world.state.add_member(guild.id, self.id, roles=ids, announce=True)

    def give_role(self, role: Role, *, guild: Guild | None = None) -> None:
        guild = guild or self.world.guild
        held = self.world.state.get_member(guild.id, self.id).role_ids
        self.world.state.edit_member(guild.id, self.id, {"role_ids": [*held, role.id]})

    def close_dms(self) -> None:
        """The bot's direct messages are refused from now on."""
        self.world.closed_to_bot.add(self.id)

    # Writing.

    def say(
        self,
        text: str,
        *,
        channel: Channel | None = None,
        reply_to: Post | None = None,
        files: Sequence[File] = (),
        silent: bool = False,
    ) -> Post:
        """In the general channel, unless another is named."""
        channel = channel or self.world.general
        reference = {"channel_id": str(channel.id), "message_id": str(reply_to.id)} if reply_to else None
        message = self.world.state.create_message(
            channel.id,
            self.id,
            text,
            reference=reference,
            attachments=[self._store(channel, file) for file in files],
            flags=SUPPRESS_NOTIFICATIONS if silent else 0,
        )
        return self.world.posts[message.id]

    def _store(self, channel: Channel, file: File) -> Json:
        (told,) = self.world.state.store_attachments(channel.id, [(file.name, file.data)])
        if file.odd:
            self.cdn.keep_odd(told["url"], file)
        if file.media_type:
            told["content_type"] = file.media_type
        if file.told_bytes is not None:
            told["size"] = file.told_bytes
        return told

    def edit(self, post: Post, text: str) -> Post:
        assert post.author_id == self.id, "people edit only what they wrote"
        self.world.state.edit_message(post.channel_id, post.id, {"content": text})
        return post

    def delete(self, post: Post) -> None:
        self.world.state.delete_message(post.channel_id, post.id)

    def react(self, post: Post, emoji: str) -> None:
        self.world.state.add_reaction(post.channel_id, post.id, emoji, self.id)

    def unreact(self, post: Post, emoji: str) -> None:
        self.world.state.remove_reaction(post.channel_id, post.id, emoji, self.id)

    def type(self, channel: Channel | None = None) -> None:
        channel = channel or self.world.general
        payload: Json = {"channel_id": str(channel.id), "user_id": str(self.id), "timestamp": 0}
        if channel.guild_id is not None:
            guild = self.world.state.get_guild(channel.guild_id)
            member = serializers.member_payload(self.world.state, guild, guild.members[self.id])
            payload |= {"guild_id": str(guild.id), "member": member}
        self.world.state.emit("TYPING_START", payload)

    def make_thread(
        self, name: str, *, at: Post | None = None, channel: Channel | None = None, private: bool = False
    ) -> Channel:
        """At a message, or in a channel."""
        parent_id = at.channel_id if at else (channel or self.world.general).id
        kind = ChannelType.PRIVATE_THREAD if private else ChannelType.PUBLIC_THREAD
        return self.world.state.create_thread(
            parent_id, name, self.id, type=kind, message_id=at.id if at else None
        )

    # Doing.

    def press(self, post: Post, label: str) -> Answer:
        return self._do_to(post, interactions.press_data(post, label))

    def forge(self, post: Post, custom_id: str) -> Answer:
        """A press of a button that is not there, as a hostile app could send it."""
        return self._do_to(post, {"component_type": 2, "custom_id": custom_id})

    def choose(self, post: Post, *labels: str, custom_id: str = "") -> Answer:
        return self._do_to(post, interactions.choice_data(post, labels, custom_id))

    def submit(self, shown: Answer, **given: Any) -> Answer:
        """Fills in the form that the bot showed: custom id → text, or values."""
        assert shown.modal, f"there is no form; the bot answered with {shown.kind or 'nothing'}"
        record = shown.record
        data = interactions.form_data(shown.modal, given)
        post = self.world.posts.get(record.source_message_id or 0)
        return self._do(
            InteractionType.MODAL_SUBMIT, self.world.state.get_channel(record.channel_id), data, post
        )

    def command(self, name: str, *, channel: Channel | None = None, **options: Any) -> Answer:
        """A slash command, with its subcommands in the name."""
        channel = channel or self.world.general
        data = self._command_data(name, options, channel)
        return self._do(InteractionType.APPLICATION_COMMAND, channel, data)

    def type_option(
        self, name: str, option: str, so_far: str, *, channel: Channel | None = None, **options: Any
    ) -> Answer:
        """Asks for the choices of an option that is being typed."""
        channel = channel or self.world.general
        data = self._command_data(name, {**options, option: so_far}, channel, typing=option)
        return self._do(InteractionType.APPLICATION_COMMAND_AUTOCOMPLETE, channel, data)

    def use_on(self, target: "Post | Person", name: str, *, channel: Channel | None = None) -> Answer:
        """A command of the context menu of a message or of a member."""
        state = self.world.state
        if isinstance(target, Post):
            channel = state.get_channel(target.channel_id)
            kind = AppCommandType.MESSAGE
            message = dict(serializers.message_payload(state, target.message))
            resolved: Json = {"messages": {str(target.id): message}}
        else:
            channel = channel or self.world.general
            kind = AppCommandType.USER
            resolved = interactions.target_user(state, target.id, channel.guild_id)
        root = interactions.find_command(state, self.id, channel.id, name, kind)
        data = interactions.context_data(root, target.id, resolved)
        return self._do(InteractionType.APPLICATION_COMMAND, channel, data)

    # Within.

    def _command_data(self, name: str, options: Json, channel: Channel, typing: str = "") -> Json:
        state = self.world.state
        first, *path = name.split()
        root = interactions.find_command(state, self.id, channel.id, first, AppCommandType.CHAT_INPUT)
        return interactions.command_data(state, root, path, options, channel.id, typing)

    def _do_to(self, post: Post, data: Json) -> Answer:
        assert post.message.visible_to(self.id), "nobody else sees what is said to one alone"
        channel = self.world.state.get_channel(post.channel_id)
        return self._do(InteractionType.MESSAGE_COMPONENT, channel, data, post)

    def _do(self, kind: InteractionType, channel: Channel, data: Json, post: Post | None = None) -> Answer:
        state = self.world.state
        record, payload = base_payload(
            state,
            type=int(kind),
            channel_id=channel.id,
            guild_id=channel.guild_id,
            user_id=self.id,
            data=data,
        )
        payload["attachment_size_limit"] = FILE_BYTES
        if post is not None:
            payload["message"] = dict(serializers.message_payload(state, post.message))
            record.source_message_id = post.id
        state.emit("INTERACTION_CREATE", payload)
        return Answer(self.world, record)


class Hook:
    """A webhook of a channel: what it says has an author that is no member, and may have any name."""

    def __init__(self, world: World, channel: Channel, name: str) -> None:
        self.world = world
        self.channel = channel
        self.webhook = world.state.create_webhook(channel.id, name, world.guild.owner_id)
        self.id = self.webhook.id

    def say(self, text: str, *, username: str | None = None) -> Post:
        message = self.world.state.create_message(
            self.channel.id, self.id, text, webhook_id=self.id, author_name=username
        )
        return self.world.posts[message.id]
